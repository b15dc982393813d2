//! B-27 and D-4: which lines are keys. The keys are throwaway ones; nobody has kept their other halves.

use super::*;

const ED25519: &str = concat!("ssh-ed25519 ", "AAAAC3NzaC1lZDI1NTE5AAAAIFNmpFiR81Ty15cVVljNq7KMn9Z1ot0e+1vH/NWJy47T");
const ECDSA: &str = concat!(
    "ecdsa-sha2-nistp256 ",
    "AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBBW7tnZ2A6UdyIVhQIduLmOJ3WwLYRaCDHqKB1P4HHLg/TpJ",
    "URUTcygvTNmlUo+LzQ4FLmnpebILECMXxYqbV6I="
);
const ECDSA_384: &str = concat!(
    "ecdsa-sha2-nistp384 ",
    "AAAAE2VjZHNhLXNoYTItbmlzdHAzODQAAAAIbmlzdHAzODQAAABhBMvQzZGZTt2x4lduVPhbWn7UxBxOgRNLfEYSe5Y+7XePgTmJ",
    "XUj95HQ9qG9yBddrubzxdy1HdvVU3tSkR5B6c+30AH0WPXzKqOzinIEnzMDk/FM5NGeK6ozDm6YXc+XQSg=="
);
const RSA: &str = concat!(
    "ssh-rsa ",
    "AAAAB3NzaC1yc2EAAAADAQABAAABAQDcG3gNW3CIHAtqIzVya++8KJjX/9UjAfRRDVGboW++wM1RBNpwZP/3rIkrFCnlJP8dB20B",
    "B2Zr9hPqRg6ljrow6a/jYRTq2qWGggBQApMvBVimALM3dTD2RnF/E1BmSFsiL0GuY1k4+M9ENxsBCUZJ/Y6TRvAu4pfriYrto2fc",
    "IIrehBvkAunSMy60J8/N9QmKzLtmGcMP5SyTRXa9mhhw6+E2GLZE0xQyHDzG9dp80zXrmBDH6gp5np9jfZJWwSFcWA8mngfernNu",
    "CaWYMeMDa352RCFEL7LwB8HZssWwgnMmvWOnuwIwoqFyPKw5O5rygZ9O0joBAq8p4LtmNyF7"
);
const FIDO_ED25519: &str = concat!(
    "sk-ssh-ed25519@openssh.com ",
    "AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIFNmpFiR81Ty15cVVljNq7KMn9Z1ot0e+1vH/NWJy47TAAAABHNzaDo="
);
const FIDO_ECDSA: &str = concat!(
    "sk-ecdsa-sha2-nistp256@openssh.com ",
    "AAAAInNrLWVjZHNhLXNoYTItbmlzdHAyNTZAb3BlbnNzaC5jb20AAAAIbmlzdHAyNTYAAABBBBW7tnZ2A6UdyIVhQIduLmOJ3WwL",
    "YRaCDHqKB1P4HHLg/TpJURUTcygvTNmlUo+LzQ4FLmnpebILECMXxYqbV6IAAAAIc3NoOndvcms="
);
const RSA_1024: &str = concat!(
    "ssh-rsa ",
    "AAAAB3NzaC1yc2EAAAADAQABAAAAgQDcYoi9aSKmuqXPt0mrtKlRwi9YzBhEqUaNkFzIuTnEAufd3q8f7x5/psSWAmOC+FOUCR8R",
    "C1sbm9cmC9he91Qk4CQYvtTHfO5R0nu2Jy1l71enk76C5jjEIzQGdTHN4bZlWTK6crtE+0Y0Urvhjz83TbfYMvbk4SS/F+r37lWY",
    "3w=="
);

#[track_caller]
fn refused(line: &str, want: BadSshKey) {
    assert_eq!(line.parse::<SshKey>(), Err(want), "{line:?}");
}

/// `line` with the bytes of its blob changed by `change`.
fn changed(line: &str, change: impl FnOnce(&mut Vec<u8>)) -> String {
    let (kind, blob) = line.split_once(' ').unwrap();
    let mut blob = STANDARD.decode(blob).unwrap();
    change(&mut blob);
    format!("{kind} {}", STANDARD.encode(blob))
}

// spec: KY-1
#[test]
fn five_kinds_of_key_are_taken_and_written_in_one_way() {
    for (line, kind) in [
        (ED25519, SshKeyKind::Ed25519),
        (ECDSA, SshKeyKind::EcdsaP256),
        (RSA, SshKeyKind::Rsa),
        (FIDO_ED25519, SshKeyKind::FidoEd25519),
        (FIDO_ECDSA, SshKeyKind::FidoEcdsaP256),
    ] {
        for spelled in [line.to_owned(), format!("{line} alice@home, work"), format!("{line}\n"), format!("{line} ")] {
            let key: SshKey = spelled.parse().unwrap();
            assert_eq!((key.kind(), key.to_string().as_str()), (kind, line), "{spelled:?}");
        }
        let json = serde_json::to_string(&line.parse::<SshKey>().unwrap()).unwrap();
        assert_eq!(serde_json::from_str::<SshKey>(&json).unwrap().to_string(), line);
    }
}

// spec: KY-2
#[test]
fn d_4_what_could_be_more_than_one_key_is_none() {
    for options in
        ["command=\"id\" ", "from=\"*\" ", "cert-authority ", "environment=\"A=b\" ", "restrict,pty ", "# ", " "]
    {
        refused(&format!("{options}{ED25519}"), BadSshKey::Kind);
    }
    for inside in ["\n", "\r", "\0", "\t", "\u{1b}[31m", "\u{202e}"] {
        refused(&format!("{ED25519} a{inside}{ED25519}"), BadSshKey::Line);
    }
    refused(&format!("{ED25519} {}", "a".repeat(1 << 20)), BadSshKey::Line);
    refused(&format!("{ED25519}\n\n"), BadSshKey::Line);
    refused("", BadSshKey::Kind);
}

// spec: KY-3
#[test]
fn d_4_the_blob_is_one_whole_key_of_the_kind_named() {
    refused("ssh-ed25519", BadSshKey::Blob);
    refused(ECDSA.trim_end_matches('='), BadSshKey::Base64);
    refused(&ED25519.replace("AAAA", "AA-_"), BadSshKey::Base64);
    refused(&ED25519.replace("ssh-ed25519", "ssh-dss"), BadSshKey::Kind);
    refused(ECDSA_384, BadSshKey::Kind);
    refused(&ED25519.replace("ssh-ed25519 ", "ssh-rsa "), BadSshKey::Blob);
    refused(&ED25519.replace("ssh-ed25519 ", "ssh-ed25519  "), BadSshKey::Blob);
    refused(&ECDSA_384.replace("ecdsa-sha2-nistp384 ", "ecdsa-sha2-nistp256 "), BadSshKey::Blob);
    for line in [ED25519, ECDSA, RSA, FIDO_ED25519, FIDO_ECDSA] {
        refused(&changed(line, |blob| blob.push(0)), BadSshKey::Blob);
        refused(&changed(line, |blob| blob.truncate(blob.len() - 1)), BadSshKey::Blob);
        refused(&changed(line, Vec::clear), BadSshKey::Blob);
    }
    // Off the curve, and the compressed form of a point.
    refused(&changed(ECDSA, |blob| *blob.last_mut().unwrap() ^= 1), BadSshKey::Blob);
}

// spec: KY-10
#[test]
fn a_fido_key_is_one_that_was_made_for_ssh() {
    let application = |text: &[u8]| {
        changed(FIDO_ED25519, |blob| {
            blob.truncate(blob.len() - 8);
            blob.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
            blob.extend(text);
        })
    };
    assert_eq!(application(b"ssh:"), FIDO_ED25519);
    assert!(application(&[&b"ssh:"[..], &[b'a'; 251]].concat()).parse::<SshKey>().is_ok());
    for other in [
        &b""[..],
        b"ssh",
        b"https://a.example",
        b"ssh: ",
        b"ssh:\n",
        b"ssh:\xff",
        &[&b"ssh:"[..], &[b'a'; 252]].concat(),
    ] {
        refused(&application(other), BadSshKey::Blob);
    }
    // Neither kind passes for the other, nor for the key it holds.
    refused(&FIDO_ED25519.replace("sk-ssh-ed25519@openssh.com ", "ssh-ed25519 "), BadSshKey::Blob);
    refused(&ED25519.replace("ssh-ed25519 ", "sk-ssh-ed25519@openssh.com "), BadSshKey::Blob);
    refused(
        &FIDO_ED25519.replace("sk-ssh-ed25519@openssh.com ", "sk-ssh-ed25519-cert-v01@openssh.com "),
        BadSshKey::Kind,
    );
}

// spec: KY-4
#[test]
fn an_rsa_key_has_a_sound_size() {
    refused(RSA_1024, BadSshKey::Rsa);
    // The exponent stands behind the kind: 4 + 7 + 4 bytes in, three bytes long.
    for exponent in [[1, 0, 2], [0x7f, 0, 0]] {
        refused(&changed(RSA, |blob| blob[15..18].copy_from_slice(&exponent)), BadSshKey::Rsa);
    }
    // Longer than it need be, zero, and negative.
    for exponent in [[0, 0, 3], [0, 1, 1], [0x80, 0, 1]] {
        refused(&changed(RSA, |blob| blob[15..18].copy_from_slice(&exponent)), BadSshKey::Blob);
    }
}

#[test]
fn the_fingerprint_is_the_one_that_ssh_keygen_shows() {
    for (line, shown) in [
        (ED25519, "SHA256:uNHxz55xlS2v/BpcS3gQySWW2xnxHfb2nu2RmrK5BT0"),
        (FIDO_ED25519, "SHA256:mxVLnr1rJcm4QbhONhg+MIQTMSUdhbGurrLrnaGVKQU"),
        (FIDO_ECDSA, "SHA256:pMvHnqAfp83a/ox9wrNeslQoNyiQ9I7Dp6b2ZuAgmso"),
    ] {
        assert_eq!(line.parse::<SshKey>().unwrap().fingerprint(), shown);
    }
}
