//! Attributes beside `userPassword` that are as good as a password for whoever reads them. The second of the two rules lets
//! readers read whatever an earlier one does not keep from them, so a directory that has such attributes is told of it.

use ldap3::Scope;
use lucia_proto::node::directory::Dn;

use super::acl;
use super::error::DirectoryError;
use super::ldap::{Asking, Ldap};

/// Samba, MIT Kerberos, Heimdal, FreeIPA, and OpenLDAP's own overlays for former passwords and one-time passwords.
const SECRETS: [&str; 9] = [
    "sambaNTPassword",
    "sambaLMPassword",
    "sambaPasswordHistory",
    "krbPrincipalKey",
    "krbMKey",
    "krb5Key",
    "ipaNTHash",
    "pwdHistory",
    "oathSecret",
];
/// Where OpenLDAP shows its schema.
const SCHEMA: &str = "cn=Subschema";

/// One note about the attributes that the schema knows, or an entry holds, and no rule keeps from readers.
///
/// # Errors
/// The directory cannot be asked.
pub(super) fn told(ldap: &Ldap, base: &Dn, denied: &[&str]) -> Result<Option<String>, DirectoryError> {
    let is_denied =
        |name: &str| denied.iter().flat_map(|list| list.split(',')).any(|own| own.eq_ignore_ascii_case(name));
    let open: Vec<&str> = SECRETS.into_iter().filter(|name| !is_denied(name)).collect();
    let found = ldap.with(async |asking| found(asking, base, &open).await)?;
    if found.is_empty() {
        return Ok(None);
    }
    Ok(Some(format!(
        "note: readers read {}, which this directory knows; to keep it from them, and from nobody else, add before all other \
         rules and run this again: olcAccess: {{0}}{}",
        found.join(", "),
        acl::denial(&found.join(","), base)
    )))
}

async fn found<'a>(asking: &mut Asking, base: &Dn, names: &[&'a str]) -> Result<Vec<&'a str>, DirectoryError> {
    let schema = asking.find(SCHEMA, Scope::Base, "(objectClass=subschema)", &["attributeTypes"]).await?;
    let types = schema.first().map(|entry| entry.values("attributeTypes")).unwrap_or_default();
    let mut found = Vec::new();
    for name in names {
        // Where the schema is hidden, entries are asked for all the same: a filter that slapd does not know finds nothing.
        if types.iter().any(|text| names_it(text, name))
            || asking.any(base.as_str(), Scope::Subtree, &format!("({name}=*)")).await?
        {
            found.push(*name);
        }
    }
    Ok(found)
}

/// Whether a description of an attribute (RFC 4512, section 4.1.2) has this name among its names.
fn names_it(text: &str, name: &str) -> bool {
    let names = text.split_once("NAME").map(|(_, rest)| rest.trim_start()).unwrap_or_default();
    let names = match names.strip_prefix('(') {
        Some(several) => several.split(')').next().unwrap_or_default(),
        None => names.split_whitespace().next().unwrap_or_default(),
    };
    names.split_whitespace().any(|one| one.trim_matches('\'').eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_descriptions() {
        let one =
            "( 1.3.6.1.4.1.7165.2.1.25 NAME 'sambaNTPassword' DESC 'MD4 of krbMKey' EQUALITY caseIgnoreIA5Match )";
        assert!(names_it(one, "sambantpassword") && !names_it(one, "krbMKey") && !names_it(one, "sambaLMPassword"));
        let several = "( 2.5.4.4 NAME ( 'sn' 'surname' ) DESC 'a ( name' SUP name )";
        assert!(names_it(several, "surname") && names_it(several, "sn") && !names_it(several, "name"));
        assert!(!names_it("( 2.5.4.4 )", "sn") && !names_it("", "sn"));
    }
}
