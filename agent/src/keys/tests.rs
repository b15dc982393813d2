use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

/// The ed25519 key with this byte in it, as a line.
pub(crate) fn line(byte: u8) -> String {
    let field = |bytes: &[u8]| [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat();
    format!("ssh-ed25519 {}", STANDARD.encode([field(b"ssh-ed25519"), field(&[byte; 32])].concat()))
}

#[test]
fn a_message_names_three_and_counts_the_rest() {
    assert_eq!(told(&[]), None);
    let one = told(&[Dropped::new("bob", Why::Local)]).unwrap();
    assert!(one.starts_with("1 ") && one.ends_with(&format!("bob: {}", Why::Local)), "{one}");
    let many: Vec<_> = (0..9).map(|n| Dropped::new(&format!("u{n}\u{1b}"), Why::Unknown)).collect();
    let text = told(&many).unwrap();
    assert!(text.starts_with("9 ") && text.contains('6'), "{text}");
    let named = |n: u8| text.contains(&format!("u{n}"));
    assert!((0..3).all(named) && !(3..9).any(named), "{text}");
    assert!(lucia_proto::base::text::is_printable(&text));
}
