//! sssd's configuration (sssd.conf(5), sssd-ldap(5)): rendered from the answer, then read back and compared, so that no
//! value ever becomes a line of its own (threats.md D-3).
//!
//! There is no `services =` line. Debian starts sssd's responders by their sockets, and with such a line the sockets fail
//! and leave the system degraded.

use lucia_proto::node::directory::DirectoryAccess;
use thiserror::Error;
use zeroize::Zeroizing;

/// The first line, by which the agent knows its own file.
pub const MARK: &str = "# Written by lucia-node-agent from the worker's answer; do not edit, it is written anew.";
/// The domain's name: only sssd's own files and logs show it.
const DOMAIN: &str = "domain/lucia";

/// Accounts of Debian itself. A directory that has one of these names shadows nobody, since `files` is asked first; this
/// keeps sssd from answering with it at all.
const SYSTEM_ACCOUNTS: &str = "root,daemon,bin,sys,sync,games,man,lp,mail,news,uucp,proxy,www-data,backup,list,irc,_apt,\
     nobody,systemd-network,systemd-resolve,systemd-timesync,messagebus,sshd,sssd,lucia-recovery,lucia-controller,lucia-worker";
/// Groups of Debian itself that stand for a right: a directory's `sudo` would be one to whoever asks by name.
const SYSTEM_GROUPS: &str = "root,daemon,bin,sys,adm,tty,disk,lp,mail,news,uucp,man,proxy,kmem,dialout,fax,voice,cdrom,\
     floppy,tape,sudo,wheel,admin,audio,dip,www-data,backup,operator,list,irc,src,shadow,utmp,video,sasl,plugdev,staff,\
     games,users,nogroup,systemd-journal,systemd-network,systemd-resolve,input,sgx,kvm,render,netdev,crontab,messagebus,\
     _ssh,ssh,docker,podman,lxd,incus,libvirt,libvirt-qemu,sssd,lucia-enrollment,lucia-controller,lucia-worker";

/// Sections in order, each with its settings in order.
type Sections = Vec<(String, Vec<(String, String)>)>;

/// The configuration cannot be made. Repeats nothing of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RenderError {
    /// Not a password the worker makes.
    #[error("the reader's password is not 16 to 128 characters of base64url, as every worker's is")]
    Password,
    /// The root's path would need quoting.
    #[error("root-file in /etc/lucia/agent.toml may only have letters, digits, . _ - and / in its path for sssd")]
    RootFile,
    /// A value does not come back as it was.
    #[error("the value of {0} would not be read back as it is")]
    Differs(&'static str),
}

/// The whole file.
///
/// # Errors
/// [`RenderError`]; nothing is to be written then.
pub fn render(access: &DirectoryAccess, password: &[u8], root_file: &str) -> Result<Zeroizing<String>, RenderError> {
    let password = std::str::from_utf8(password).map_err(|_| RenderError::Password)?;
    let base64url = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !(16..=128).contains(&password.len()) || !password.bytes().all(base64url) {
        return Err(RenderError::Password);
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
    if !root_file.starts_with('/') || !root_file.bytes().all(plain) {
        return Err(RenderError::RootFile);
    }
    let group_base = access.owner_group.as_str().split_once(',').map_or(access.base_dn.as_str(), |(_, base)| base);
    let domain = [
        ("id_provider", "ldap"),
        ("auth_provider", "ldap"),
        // Nobody else of the directory gets in, whatever keys or password he has.
        ("access_provider", "simple"),
        ("simple_allow_groups", access.owner_group.group_name()),
        ("chpass_provider", "none"),
        ("sudo_provider", "none"),
        ("autofs_provider", "none"),
        ("selinux_provider", "none"),
        ("subdomains_provider", "none"),
        ("hostid_provider", "none"),
        ("ldap_uri", access.uri.as_str()),
        ("ldap_search_base", access.base_dn.as_str()),
        // The owners' group is the one of this DN, and no other of its name elsewhere in the directory.
        ("ldap_group_search_base", group_base),
        ("ldap_default_bind_dn", access.bind_dn.as_str()),
        ("ldap_default_authtok_type", "password"),
        ("ldap_default_authtok", password),
        ("ldap_tls_reqcert", "demand"),
        ("ldap_tls_cacert", root_file),
        ("ldap_id_use_start_tls", "false"),
        ("ldap_referrals", "false"),
        ("ldap_schema", "rfc2307"),
        ("ldap_id_mapping", "false"),
        ("cache_credentials", "true"),
        ("enumerate", "false"),
        ("use_fully_qualified_names", "false"),
        ("case_sensitive", "true"),
        ("min_id", "1000"),
        ("entry_cache_timeout", "600"),
        ("fallback_homedir", "/home/%u"),
        ("default_shell", "/bin/bash"),
    ];
    written(&[
        ("sssd", &[("domains", "lucia")]),
        ("nss", &[("filter_users", SYSTEM_ACCOUNTS), ("filter_groups", SYSTEM_GROUPS)]),
        (DOMAIN, &domain),
    ])
}

/// The text of these sections, if it is read back as exactly them.
fn written(sections: &[(&'static str, &[(&'static str, &str)])]) -> Result<Zeroizing<String>, RenderError> {
    let mut text = Zeroizing::new(format!("{MARK}\n"));
    for (section, settings) in sections {
        text.push_str(&format!("\n[{section}]\n"));
        for (key, value) in *settings {
            text.push_str(&format!("{key} = {value}\n"));
        }
    }
    let read = parse(&text).map_err(RenderError::Differs)?;
    let mut left = read.iter();
    for (section, settings) in sections {
        let Some((name, found)) = left.next() else { return Err(RenderError::Differs("the sections")) };
        if name != section || found.len() != settings.len() {
            return Err(RenderError::Differs("the sections"));
        }
        for ((key, value), (found_key, found)) in settings.iter().zip(found) {
            if key != found_key || value != found {
                return Err(RenderError::Differs(key));
            }
        }
    }
    if left.next().is_some() { Err(RenderError::Differs("the sections")) } else { Ok(text) }
}

/// Reads the form that sssd's own reader takes, and refuses everything in it that the agent never writes: a value that
/// goes on in the next line, a line that only looks like a comment, quotes, control characters, a setting twice.
fn parse(text: &str) -> Result<Sections, &'static str> {
    let mut sections: Sections = Vec::new();
    for line in text.split('\n') {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.chars().any(char::is_control) || line.starts_with([' ', ';']) || line.ends_with([' ', '\\']) {
            return Err("a line");
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.strip_suffix(']').ok_or("a section")?;
            let plain = |b: u8| b.is_ascii_lowercase() || b == b'/';
            if name.is_empty() || !name.bytes().all(plain) || sections.iter().any(|(other, _)| other == name) {
                return Err("a section");
            }
            sections.push((name.to_owned(), Vec::new()));
            continue;
        }
        let (key, value) = line.split_once(" = ").ok_or("a setting")?;
        let (_, settings) = sections.last_mut().ok_or("a setting")?;
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        let quiet = value.bytes().all(|b| b.is_ascii_graphic() || b == b' ') && !value.contains(['"', '\'', ';', '#']);
        if key.is_empty() || !key.bytes().all(plain) || settings.iter().any(|(other, _)| other == key) {
            return Err("a setting");
        }
        if value.is_empty() || value.starts_with(' ') || !quiet {
            return Err("a value");
        }
        settings.push((key.to_owned(), value.to_owned()));
    }
    Ok(sections)
}

#[cfg(test)]
mod tests;
