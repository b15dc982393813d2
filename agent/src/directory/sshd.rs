//! sshd's drop-in: one more place to look for keys, beside users' own.

/// Its name. sshd takes the first value it reads of a setting, and reads drop-ins in the order of their names.
pub const NAME: &str = "10-lucia.conf";

/// The first line, by which the agent knows its own file.
pub const MARK: &str = "# Written by lucia-node-agent; do not edit, it is written anew.";

/// Where sshd finds the keys of a directory user: `%u` is the name it was asked for.
const KEYS: &str = "/etc/ssh/lucia-authorized-keys/%u";

/// The whole file. The first two places are sshd's own default, so that local accounts log in as before.
pub const DROP_IN: &str = "\
# Written by lucia-node-agent; do not edit, it is written anew.
# Keys of directory users are in a directory that only root writes to; everybody's own stay where they were.
AuthorizedKeysFile .ssh/authorized_keys .ssh/authorized_keys2 /etc/ssh/lucia-authorized-keys/%u
";

/// Where sshd looks for keys when nobody says anything.
const DEFAULT: &str = ".ssh/authorized_keys .ssh/authorized_keys2";

/// What `sshd -T` prints of one setting.
fn setting<'a>(shown: &'a str, name: &str) -> Option<&'a str> {
    shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
}

/// Whether what `sshd -T` prints goes by the drop-in.
#[must_use]
pub fn is_in_force(shown: &str) -> bool {
    setting(shown, "authorizedkeysfile").is_some_and(|value| value.split(' ').any(|place| place == KEYS))
}

/// Whether sshd asks PAM who gets in: sssd's word on that is heard nowhere else.
#[must_use]
pub fn asks_pam(shown: &str) -> bool {
    setting(shown, "usepam") == Some("yes")
}

/// Places that somebody else chose, where there is no drop-in yet: it comes first and would take them away, and with
/// them the keys of local accounts.
#[must_use]
pub fn chosen(shown: &str) -> Option<&str> {
    let value = setting(shown, "authorizedkeysfile")?;
    (value != DEFAULT && value.strip_prefix(DEFAULT).and_then(|rest| rest.strip_prefix(' ')) != Some(KEYS))
        .then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: DI-3
    #[test]
    fn the_drop_in_adds_a_place_and_takes_none_away() {
        assert!(DROP_IN.starts_with(MARK) && DROP_IN.ends_with('\n'));
        let settings: Vec<_> = DROP_IN.lines().filter(|line| !line.starts_with('#')).collect();
        let [setting] = settings[..] else { panic!("{settings:?}") };
        assert_eq!(setting, format!("AuthorizedKeysFile .ssh/authorized_keys .ssh/authorized_keys2 {KEYS}"));
    }

    #[test]
    fn what_sshd_shows_tells_whether_it_counts() {
        let shown = "port 22\nauthorizedkeysfile .ssh/authorized_keys /etc/ssh/lucia-authorized-keys/%u\nusepam yes\n";
        assert!(is_in_force(shown));
        assert!(asks_pam(shown) && !asks_pam("usepam no\n") && !asks_pam("usepamx yes\n"));
        for other in [
            "",
            "authorizedkeysfile .ssh/authorized_keys .ssh/authorized_keys2\n",
            "authorizedkeysfile /etc/ssh/lucia-authorized-keys/%u.old\n",
            "x authorizedkeysfile /etc/ssh/lucia-authorized-keys/%u\n",
        ] {
            assert!(!is_in_force(other), "{other:?}");
        }
    }

    /// Debian reads drop-ins before its own file, so ours would win over an administrator's line there.
    // spec: DI-13
    #[test]
    fn places_that_an_administrator_chose_are_told_apart() {
        for none in [
            "authorizedkeysfile .ssh/authorized_keys .ssh/authorized_keys2\n",
            "authorizedkeysfile .ssh/authorized_keys .ssh/authorized_keys2 /etc/ssh/lucia-authorized-keys/%u\n",
        ] {
            assert_eq!(chosen(none), None);
        }
        for own in
            ["/etc/ssh/admin-keys/%u", "none", ".ssh/authorized_keys", "/etc/ssh/lucia-authorized-keys/%u /srv/%u"]
        {
            assert_eq!(chosen(&format!("port 22\nauthorizedkeysfile {own}\nusepam yes\n")), Some(own));
        }
    }
}
