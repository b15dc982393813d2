use super::*;

fn name(text: &str) -> FileName {
    text.parse().unwrap()
}

/// Blocks of one file: header, content, padding.
fn file(name_: &str, content: &[u8]) -> Vec<u8> {
    let size = u64::try_from(content.len()).unwrap();
    let mut out = header(&name(name_), size, MODE_PROGRAM).unwrap().to_vec();
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
    out
}

fn archive(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut out = parts.concat();
    out.resize(out.len() + 2 * BLOCK, 0);
    out
}

/// A header changed at one place, its checksum put right again.
fn patched(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut block = header(&name("agent"), 5, MODE_FILE).unwrap();
    block[at..at + bytes.len()].copy_from_slice(bytes);
    if !(148..156).contains(&at) {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    let mut out = block.to_vec();
    out.extend_from_slice(b"hello");
    out.resize(2 * BLOCK, 0);
    out
}

#[track_caller]
fn refused_header(at: usize, bytes: &[u8], field: &'static str) {
    let error = files(&archive(&[patched(at, bytes)])).unwrap_err();
    assert_eq!(error, ArchiveError::Header { block: 0, field }, "{at} {bytes:?}");
}

// spec: RL-1
#[test]
fn plain_files_come_out_as_they_went_in() {
    let contents: [&[u8]; 5] = [b"", b"x", &[7; BLOCK - 1], &[8; BLOCK], &[9; BLOCK + 1]];
    let parts: Vec<_> = contents.iter().enumerate().map(|(n, content)| file(&format!("f{n}"), content)).collect();
    let out = files(&archive(&parts)).unwrap();
    assert_eq!(out.len(), 5);
    for ((found, content), (n, want)) in out.iter().zip(contents.iter().enumerate()) {
        assert_eq!((found.as_str(), content.as_slice()), (format!("f{n}").as_str(), *want));
    }
}

// spec: RL-1
#[test]
fn gnu_tar_writes_the_same_header() {
    // tar --format=ustar --owner=0 --group=0 --numeric-owner --mtime=@0 --mode=0755 --sort=name -b1 -cf - agent
    // for a file `agent` of three bytes.
    let ours = header(&name("agent"), 3, MODE_PROGRAM).unwrap();
    let mut theirs = [0; BLOCK];
    for (at, text) in [
        (0, "agent"),
        (100, "0000755\x000000000\x000000000\x0000000000003\x0000000000000\x00010222\x00 0"),
        (257, "ustar\x0000"),
        (329, "0000000\x000000000\0"),
    ] {
        theirs[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    assert_eq!(ours, theirs);
}

// spec: RL-2 (threats.md T-1, T-2)
#[test]
fn only_plain_files() {
    for kind in *b"123456789\0xgLKSVMNDA " {
        refused_header(156, &[kind], "type");
    }
    refused_header(157, b"/etc/passwd", "link name");
    refused_header(257, b"ustar  \0", "magic");
    refused_header(257, &[0; 8], "magic");
    refused_header(263, b"01", "version");
}

// spec: RL-2 (threats.md T-3)
#[test]
fn only_plain_names() {
    let names: [&[u8]; 17] = [
        b"../x\0",
        b"/x\0",
        b"a/b\0",
        b"./a\0",
        b".\0",
        b"..\0",
        b"\0\0\0\0\0",
        b".hidden\0",
        b"-rf\0",
        b"a b\0",
        b"a\n\0",
        b"a\\b\0",
        b"a;b\0",
        b"\xff\xfe\0",
        b"\xc3\xa4\0",
        &[b'a'; 100],
        &[b'a'; 65],
    ];
    for bad in names {
        refused_header(0, bad, "name");
    }
    // What stands behind the first NUL is not nothing: another reader may not stop there.
    refused_header(0, b"a\0gent", "name");
    refused_header(0, b"agent\0/../x", "name");
    refused_header(345, b"../..", "prefix");
    refused_header(500, b"x", "rest of the header");
    let longest = "a".repeat(64);
    assert_eq!(files(&archive(&[file(&longest, b"")])).unwrap()[0].0.as_str(), longest);
    let twice = |a: &str, b: &str| files(&archive(&[file(a, b"x"), file(b, b"y")]));
    assert_eq!(twice("agent", "agent"), Err(ArchiveError::Twice { block: 2 }));
    assert_eq!(twice("agent", "Agent"), Err(ArchiveError::Twice { block: 2 }));
    assert!(twice("agent", "agent2").is_ok());
}

// spec: RL-2 (threats.md T-4)
#[test]
fn only_plain_numbers() {
    for bad in [
        &b"\x80\0\0\0\0\0\0\0\0\0\0\x05"[..],
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfb",
        b"-0000000005\0",
        b"+0000000005\0",
        b"          5\0",
        b"5          \0",
        b"0000000000 \0",
        b"00000000008\0",
        b"0x000000005\0",
        b"5\0\0\0\0\0\0\0\0\0\0\0",
        b"000000000005",
        b"00000000005 ",
    ] {
        refused_header(124, bad, "size");
    }
    refused_header(100, b"0006755\0", "mode");
    refused_header(100, b"0004755\0", "mode");
    refused_header(100, b"0000777\0", "mode");
    refused_header(100, b"    644\0", "mode");
    refused_header(108, b"0001750\0", "uid");
    refused_header(116, b"0001750\0", "gid");
    refused_header(136, b"14000000000\0", "mtime");
    refused_header(265, b"root", "user name");
    refused_header(297, b"root", "group name");
    refused_header(329, b"0000001\0", "device");
    for bad in [b"000000\0 ", b"010223\0 ", b"0010222\0"] {
        refused_header(148, bad, "checksum");
    }
    assert!(files(&archive(&[patched(100, b"0000755\0")])).is_ok());
    assert!(files(&archive(&[patched(100, b"0000644\0")])).is_ok());
    assert_eq!(header(&name("a"), 1 << 33, MODE_FILE), None);
    assert_eq!(header(&name("a"), 1 << 63, MODE_FILE), None);
    assert_eq!(header(&name("a"), 0, 1 << 21), None);
    assert!(header(&name("a"), (1 << 33) - 1, (1 << 21) - 1).is_some());
}

// spec: RL-3 (threats.md T-5)
#[test]
fn an_archive_ends_once_and_whole() {
    let whole = archive(&[file("a", &[1; 700]), file("b", b"")]);
    assert!(files(&whole).is_ok());
    for cut in 0..whole.len() {
        assert!(files(&whole[..cut]).is_err(), "cut at {cut}");
    }
    let more = |tail: &[u8]| files(&[&whole[..], tail].concat());
    assert_eq!(more(&[0; BLOCK]), Err(ArchiveError::End { block: 6 }));
    assert_eq!(more(&[1; BLOCK]), Err(ArchiveError::End { block: 6 }));
    assert_eq!(more(b"x"), Err(ArchiveError::End { block: 6 }));
    assert!(more(&whole).is_err());
    assert!(more(&[0; 10 * BLOCK]).is_err());
    let mut one_zero = file("a", b"x");
    one_zero.extend_from_slice(&[0; BLOCK]);
    one_zero.extend(archive(&[file("b", b"y")]));
    assert_eq!(files(&one_zero), Err(ArchiveError::End { block: 3 }));
    assert_eq!(files(&[0; 2 * BLOCK]), Err(ArchiveError::Empty));
    assert_eq!(files(&[]), Err(ArchiveError::End { block: 0 }));
    let mut hidden = whole.clone();
    hidden[3 * BLOCK - 1] = 1;
    assert_eq!(files(&hidden), Err(ArchiveError::Padding { block: 2 }));
}

// spec: RL-4 (threats.md T-6)
#[test]
fn counts_and_sizes_are_bounded() {
    let named = |count: usize| (0..count).map(|n| file(&format!("f{n}"), b"")).collect::<Vec<_>>();
    assert_eq!(files(&archive(&named(512))).map(|files| files.len()), Ok(512));
    assert_eq!(files(&archive(&named(513))), Err(ArchiveError::TooMuch { block: 512, what: "512 files" }));

    let claim = |reader: &mut ArchiveReader, name_: &str, size: u64| {
        reader.block(&header(&name(name_), size, MODE_FILE).unwrap()).map(|step| matches!(step, ReleaseStep::File(_)))
    };
    let mut reader = ArchiveReader::new();
    let one = claim(&mut reader, "a", RELEASE_FILE_MAX + 1);
    assert!(matches!(one, Err(ArchiveError::TooMuch { block: 0, .. })), "{one:?}");
    let mut reader = ArchiveReader::new();
    for n in 0..2 {
        assert_eq!(claim(&mut reader, &format!("f{n}"), RELEASE_FILE_MAX), Ok(true));
        // As after 256 MiB of blocks.
        reader.state = ReleaseState::Header;
    }
    let error = claim(&mut reader, "more", 1).unwrap_err();
    assert!(matches!(error, ArchiveError::TooMuch { .. }), "{error}");
}

// spec: RL-5 (threats.md T-7)
#[test]
fn the_release_id_names_every_file_and_its_content() {
    let entry = |name_: &str, content: &str| (name(name_), Digest::of(content.as_bytes()));
    let list = |entries: &[(FileName, Digest)]| release_id(&entries.iter().cloned().collect());
    let base = list(&[entry("agent", "1"), entry("lib", "2")]).unwrap();
    let text = format!("agent\0{}\nlib\0{}\n", Digest::of(b"1"), Digest::of(b"2"));
    assert_eq!(base, Digest::of(text.as_bytes()));
    assert_eq!(list(&[entry("lib", "2"), entry("agent", "1")]), Ok(base));
    for other in [
        vec![entry("agent", "1")],
        vec![entry("agent", "1"), entry("lib", "2"), entry("more", "")],
        vec![entry("agent", "2"), entry("lib", "1")],
        vec![entry("agent", "1"), entry("lib2", "2")],
    ] {
        assert_ne!(list(&other), Ok(base));
    }
    // Byte order, not dictionary order.
    let upper = list(&[entry("a", "1"), entry("B", "2")]).unwrap();
    assert_eq!(upper, Digest::of(format!("B\0{}\na\0{}\n", Digest::of(b"2"), Digest::of(b"1")).as_bytes()));
    assert_eq!(list(&[]), Err(ArchiveError::Empty));
    let many = |count: usize| (0..count).map(|n| entry(&format!("f{n}"), "")).collect::<Vec<_>>();
    assert!(list(&many(512)).is_ok());
    assert_eq!(list(&many(513)), Err(ArchiveError::TooMuch { block: 0, what: "512 files" }));
}
