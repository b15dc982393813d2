//! Which accounts are this machine's own, and what getent says of the directory's (passwd(5)).

use std::collections::{BTreeMap, BTreeSet};

use lucia_proto::base::names::AccountName;

use crate::host;
use crate::host::root::Root;

/// Longest `/etc/passwd`: over ten thousand accounts.
const MAX: u64 = 1 << 20;
/// The first uid of a person.
const FIRST_UID: u32 = 1000;
/// `nobody`.
const NOBODY: u32 = 65534;

/// This machine's own accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Local {
    /// Their names.
    pub names: BTreeSet<String>,
    /// Their uids: a directory account of one of them would be that account to the kernel and to sudo.
    pub uids: BTreeSet<u32>,
}

/// The accounts in `/etc/passwd`; nothing where that cannot be read whole.
#[must_use]
pub fn local(root: &Root) -> Option<Local> {
    let text = whole(root, "etc/passwd")?;
    let mut local = Local::default();
    for line in text.lines() {
        let mut fields = line.split(':');
        if let (Some(name), Some(_)) = (fields.next().filter(|name| !name.is_empty()), fields.next()) {
            local.names.insert(name.to_owned());
            local.uids.extend(fields.next().and_then(|uid| uid.parse::<u32>().ok()));
        }
    }
    Some(local)
}

/// Whether `/etc/group` has a group of this name. It comes before the directory's (nsswitch.conf: `files sss`), so its
/// members pass for the directory's.
#[must_use]
pub fn has_group(root: &Root, name: &str) -> bool {
    whole(root, "etc/group").is_some_and(|text| text.lines().any(|line| line.split(':').next() == Some(name)))
}

fn whole(root: &Root, path: &str) -> Option<String> {
    let bytes = host::read_bytes(&root.join(path), MAX + 1).ok()?;
    let fits = u64::try_from(bytes.len()).ok()? <= MAX;
    fits.then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// The accounts that getent printed, and whether each may have keys: its uid is a person's, and not one of `local`.
#[must_use]
pub fn looked_up(output: &str, local: &BTreeSet<u32>) -> BTreeMap<AccountName, bool> {
    let account = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.parse().ok()?;
        let uid: u32 = fields.nth(1)?.parse().ok()?;
        // Seven fields, or it is not a line of passwd.
        let is_person = uid >= FIRST_UID && uid != NOBODY && uid != u32::MAX;
        (fields.count() == 4).then_some((name, is_person && !local.contains(&uid)))
    };
    output.lines().filter_map(account).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scratch::Scratch;

    // spec: KF-5
    #[test]
    fn an_account_below_1000_is_no_persons_nor_one_of_a_local_uid() {
        let found = looked_up(
            "alice:*:20001:20001:Alice:/home/alice:/bin/bash\nlow:*:999:999::/:/bin/sh\nroot:*:0:0::/:/bin/sh\n\
             nobody:*:65534:65534::/:/bin/sh\nshort:*:20002:20002\nneg:*:-1:1:::\nlong:*:20003:1::::\n\
             big:*:4294967295:1:::\nBad Name:*:20004:1:::\nmallory:*:1000:20001:::\n",
            &BTreeSet::from([0, 1000]),
        );
        let found: Vec<_> = found.iter().map(|(name, person)| (name.as_str(), *person)).collect();
        assert_eq!(found, [("alice", true), ("big", false), ("low", false), ("mallory", false), ("nobody", false)]);
    }

    // spec: KF-4
    #[test]
    fn local_accounts_are_those_of_etc_passwd() {
        let scratch = Scratch::new();
        assert_eq!(local(&scratch.root()), None);
        scratch
            .put("etc/passwd", "root:x:0:0::/root:/bin/sh\nadmin:x:1000:1000::/home/admin:/bin/sh\n:x:1::\nno line\n");
        let found = local(&scratch.root()).unwrap();
        assert_eq!(found.names.iter().collect::<Vec<_>>(), ["admin", "root"]);
        assert_eq!(found.uids, BTreeSet::from([0, 1000]));
        scratch.put("etc/passwd", &"a".repeat((1 << 20) + 1));
        assert_eq!(local(&scratch.root()), None);
    }
}
