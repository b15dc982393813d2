use super::*;
use crate::base::json;
use crate::test_support::TestNode;

const SECRET: &[u8] = b"kAq3cVw0yR7xXo1uJ5mBf2eTnZsLh8iGdPq4rWvC6aY";

fn seed(byte: u8) -> Zeroizing<[u8; 32]> {
    Zeroizing::new([byte; 32])
}

fn sealed(node: &TestNode) -> Sealed {
    Sealed::seal(SECRET, node.key.public(), &node.node_id, &node.csr_sha256(), &seed(5)).unwrap()
}

// spec: SE-1
#[test]
fn only_the_node_itself_opens_it() {
    let (node, other) = (TestNode::new(7), TestNode::new(8));
    let csr_sha256 = node.csr_sha256();
    let sealed = sealed(&node);
    assert_eq!(sealed.open(&node.key, &node.node_id, &csr_sha256).unwrap().as_slice(), SECRET);
    for (what, key, node_id, csr) in [
        ("another node's key", &other.key, &node.node_id, csr_sha256),
        ("another node's id", &node.key, &other.node_id, csr_sha256),
        ("another CSR", &node.key, &node.node_id, other.csr_sha256()),
    ] {
        assert_eq!(sealed.open(key, node_id, &csr).unwrap_err(), SealedError::Open, "{what}");
    }
}

// spec: SE-2
#[test]
fn what_was_changed_on_its_way_does_not_open() {
    let node = TestNode::new(7);
    let good = sealed(&node);
    let opens = |sealed: &Sealed| sealed.open(&node.key, &node.node_id, &node.csr_sha256()).is_ok();
    assert!(opens(&good));
    for at in 0..good.ciphertext.len() {
        let mut bad = good.clone();
        bad.ciphertext[at] ^= 1;
        assert!(!opens(&bad), "byte {at}");
        let cut = Sealed { ciphertext: good.ciphertext[..at].to_vec(), ..good.clone() };
        assert!(!opens(&cut), "cut at {at}");
    }
    for at in 0..ENC_LEN {
        let mut bad = good.clone();
        bad.enc[at] ^= 1;
        assert!(!opens(&bad), "enc byte {at}");
    }
}

// spec: SE-3
#[test]
fn only_its_one_form_is_read() {
    let text = json::to_string(&sealed(&TestNode::new(7))).unwrap();
    let read = |text: &str| json::from_str::<Sealed>(text, 4096, 4).is_ok();
    assert!(read(&text));
    let enc = STANDARD.encode([4; ENC_LEN]);
    for bad in [
        "{}".to_owned(),
        format!("{{\"enc\":\"{enc}\"}}"),
        format!("{{\"enc\":\"{enc}\",\"ciphertext\":\"\"}}"),
        format!("{{\"enc\":\"{enc}\",\"ciphertext\":\"{}\"}}", STANDARD.encode([0; TAG_LEN])),
        format!("{{\"enc\":\"{enc}\",\"ciphertext\":\"{}\"}}", STANDARD.encode([0; TAG_LEN + SECRET_MAX + 1])),
        text.replace('=', ""),
        text.replace("\"enc\"", "\"x\":1,\"enc\""),
        text.replacen("\"B", "\"BB", 1),
    ] {
        assert!(!read(&bad), "{bad}");
    }
    for length in [0, SECRET_MAX + 1] {
        let node = TestNode::new(7);
        let secret = vec![0; length];
        let refused = Sealed::seal(&secret, node.key.public(), &node.node_id, &node.csr_sha256(), &seed(1));
        assert_eq!(refused, Err(SealedError::Length));
    }
}

#[test]
fn nothing_of_it_is_shown() {
    assert_eq!(format!("{:?}", sealed(&TestNode::new(7))), "Sealed(59 bytes)");
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Known {
    node_key_pem: String,
    node_id: NodeId,
    csr_sha256: Digest,
    ephemeral_hex: Digest,
    secret: String,
    sealed: Sealed,
}

/// The vector was computed by another implementation (RFC 9180 in Python, from the HMAC, ECDH and AES-GCM of
/// `cryptography` 48), so that a mistake of ours or of the library would show.
// spec: SE-4
#[test]
fn the_known_answer() {
    let known: Known =
        json::from_str(include_str!("../../../../tests/vectors/sealed-v1/reader.json").trim_end(), 4096, 4).unwrap();
    let key = NodeKey::from_pem(&known.node_key_pem).unwrap();
    assert_eq!(key.public().fingerprint().node_id(), known.node_id);
    let ephemeral = Zeroizing::new(*known.ephemeral_hex.as_bytes());
    let made =
        Sealed::seal(known.secret.as_bytes(), key.public(), &known.node_id, &known.csr_sha256, &ephemeral).unwrap();
    assert_eq!(made, known.sealed);
    let opened = known.sealed.open(&key, &known.node_id, &known.csr_sha256).unwrap();
    assert_eq!(opened.as_slice(), known.secret.as_bytes());
}
