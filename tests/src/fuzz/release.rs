//! Release archives: what is accepted is put together again from its files, byte for byte.

use lucia_proto::pki::release::{BLOCK, FileName, MODE_FILE, MODE_PROGRAM, files, header};

pub(super) fn run(input: &[u8]) {
    judge(input);
    // With the sums that whoever changed a header would write.
    let mut mended = input.to_vec();
    for block in mended.as_chunks_mut::<BLOCK>().0 {
        if block[257..262] == *b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
    judge(&mended);
    // Whole blocks, and an end.
    mended.truncate(mended.len() / BLOCK * BLOCK);
    mended.extend([0; 2 * BLOCK]);
    judge(&mended);
}

fn judge(archive: &[u8]) {
    let Ok(found) = files(archive) else { return };
    assert!(!found.is_empty());
    let mut rebuilt = Vec::new();
    for (name, content) in &found {
        let program = archive.get(rebuilt.len() + 100..rebuilt.len() + 108) == Some(b"0000755\0");
        let mode = if program { MODE_PROGRAM } else { MODE_FILE };
        rebuilt.extend(header(name, content.len().try_into().unwrap(), mode).unwrap());
        rebuilt.extend(content);
        rebuilt.resize(rebuilt.len().next_multiple_of(BLOCK), 0);
    }
    rebuilt.resize(rebuilt.len() + 2 * BLOCK, 0);
    assert!(rebuilt == archive, "the archive holds more than its files");
    let mut names: Vec<_> = found.iter().map(|(name, _)| name.as_str().to_ascii_lowercase()).collect();
    names.sort();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a name twice: {names:?}");
    for (name, _) in &found {
        let path = std::path::Path::new(name.as_str());
        assert_eq!(path.components().count(), 1, "{name}");
        assert_eq!(path.file_name(), Some(path.as_os_str()), "{name}");
        assert!(name.as_str().parse::<FileName>().is_ok());
    }
}
