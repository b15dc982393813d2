use std::time::Duration;

use lucia_durable::DirRules;

use super::*;

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFNmpFiR81Ty15cVVljNq7KMn9Z1ot0e+1vH/NWJy47T";
const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lucia-ssh-keys-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    fn open(&self) -> Result<SshKeys, SshKeysError> {
        SshKeys::open(PrivateDir::create(&self.0, DirRules::private()).unwrap())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The `number`th ed25519 key: any 32 bytes are one.
fn key(number: u8) -> String {
    KEY.replacen("FNmpFi", &format!("FNm{}Fi", char::from(b'A' + number)), 1)
}

fn form(account: &str, key: &str) -> SshKeyForm {
    SshKeyForm { account: account.parse().unwrap(), label: "laptop".parse().unwrap(), key: key.to_owned() }
}

fn removal(account: &str, key: &str) -> RemoveSshKey {
    let fingerprint = key.parse::<SshKey>().unwrap().fingerprint();
    RemoveSshKey { account: account.parse().unwrap(), fingerprint }
}

#[track_caller]
fn refused(keys: &mut SshKeys, form: SshKeyForm, code: Code) {
    let before = keys.view();
    assert_eq!(keys.add(form, NOW, "operator:0", || Ok(())).map_err(|refusal| refusal.code), Err(code));
    assert_eq!(keys.view(), before);
}

// spec: KY-8
#[test]
fn a_key_that_cannot_be_told_of_is_not_given() {
    let scratch = Scratch::new("untold");
    let mut keys = scratch.open().unwrap();
    let untold = || Err(Refusal::new(Code::PersistenceFailed, "no journal"));
    assert!(keys.add(form("alice", KEY), NOW, "operator:0", untold).is_err());
    assert_eq!(keys.told().now().as_deref().cloned(), None);
    keys.add(form("alice", KEY), NOW, "operator:0", || Ok(())).unwrap();
    assert!(keys.remove(&removal("alice", KEY), untold).is_err());
    assert_eq!(scratch.open().unwrap().view().keys.len(), 1);
}

// spec: KY-5
#[test]
fn nodes_are_told_nothing_before_the_first_key_and_of_no_key_after_the_last() {
    let scratch = Scratch::new("told");
    let mut keys = scratch.open().unwrap();
    assert_eq!(keys.told().now().as_deref().cloned(), None);
    keys.add(form("alice", &format!("{KEY} alice@home")), NOW, "operator:0", || Ok(())).unwrap();
    let delivered = Delivered::from([("alice".parse().unwrap(), vec![KEY.to_owned()])]);
    assert_eq!(keys.told().now().as_deref().cloned(), Some(delivered.clone()));
    drop(keys);
    let mut keys = scratch.open().unwrap();
    assert_eq!(keys.told().now().as_deref().cloned(), Some(delivered));
    keys.remove(&removal("alice", KEY), || Ok(())).unwrap();
    assert_eq!(scratch.open().unwrap().told().now().as_deref().cloned(), Some(Delivered::new()));
    assert_eq!(
        keys.remove(&removal("alice", KEY), || Ok(())).map_err(|refusal| refusal.code),
        Err(Code::SshKeyNotFound)
    );
}

// spec: KY-6
#[test]
fn an_account_has_ten_keys_and_all_together_fit_into_a_reply() {
    let scratch = Scratch::new("bounds");
    let mut keys = scratch.open().unwrap();
    refused(&mut keys, form("alice", "ssh-ed25519 AAAA"), Code::InvalidSshKey);
    refused(&mut keys, form("alice", &format!("command=\"id\" {KEY}")), Code::InvalidSshKey);
    for number in 0..10 {
        keys.add(form("alice", &key(number)), NOW, "operator:0", || Ok(())).unwrap();
    }
    refused(&mut keys, form("alice", &key(3)), Code::DuplicateSshKey);
    refused(&mut keys, form("alice", &key(10)), Code::TooManySshKeys);
    // Another account may have the same key.
    keys.add(form("bob", &key(3)), NOW.plus(Duration::from_secs(1)), "operator:0", || Ok(())).unwrap();
    let mut full = None;
    'accounts: for account in 0..100 {
        for number in 0..10 {
            match keys.add(form(&format!("user{account}"), &key(number)), NOW, "operator:0", || Ok(())) {
                Ok(()) => {}
                Err(refusal) => {
                    full = Some(refusal.code);
                    break 'accounts;
                }
            }
        }
    }
    assert_eq!(full, Some(Code::SshKeyListFull));
    let reply = serde_json::to_string(&keys.told().now().as_deref().cloned()).unwrap();
    assert!(reply.len() < 60 * 1024, "{} characters", reply.len());
}

// spec: KY-7
#[test]
fn a_damaged_list_stops_the_start_and_is_never_taken_for_an_empty_one() {
    let scratch = Scratch::new("damaged");
    scratch.open().unwrap().add(form("alice", KEY), NOW, "operator:0", || Ok(())).unwrap();
    let file = scratch.0.join(FILE);
    let good = std::fs::read(&file).unwrap();
    let row = String::from_utf8(good.clone()).unwrap();
    let twice = row.replace("]}", &format!(",{}]}}", &row[row.find("[{").unwrap() + 1..row.rfind(']').unwrap()]));
    for bad in [&b""[..], b"{}", &good[..good.len() - 1], b"[]", twice.as_bytes()] {
        std::fs::write(&file, bad).unwrap();
        assert!(scratch.open().is_err(), "{:?}", String::from_utf8_lossy(bad));
    }
    std::fs::write(&file, &good).unwrap();
    assert!(scratch.open().is_ok());
}
