//! An owner's key on this machine: PKCS#8 in PEM, under a passphrase (PKCS #5 PBES2: scrypt, AES-256-CBC), as
//! `openssl pkcs8` reads and writes it. It never leaves this machine.

use std::path::Path;

use lucia_proto::base::pem;
use lucia_proto::base::text::shown;
use lucia_proto::pki::key::NodeKey;
use pkcs8::pkcs5::{pbes2, scrypt};
use pkcs8::{EncryptedPrivateKeyInfoRef, LineEnding, PrivateKeyInfoRef};
use zeroize::Zeroizing;

use crate::files::{self, FileError, Secret};
use crate::passphrase::{PassphraseError, Source};
use crate::problem::{CONFIG, FAILED, problems};

const PLAIN: &str = "PRIVATE KEY";
const SEALED: &str = "ENCRYPTED PRIVATE KEY";
/// A key in PEM under a passphrase: 400 bytes in truth.
const KEY_FILE_MAX: u64 = 4096;
/// 2^14 blocks of 1 KiB, five times over: 16 MiB, which is as much as OpenSSL takes by itself, and half a second.
const SCRYPT: (u8, u32, u32) = (14, 8, 5);

problems! {
    /// Why there is no key.
    pub(crate) enum OwnerKeyError {
        File(error: FileError) = error.code(), CONFIG, ["the owner key cannot be used: {error}"], ["{}", error.cure()];
        Missing(name: String) = "", CONFIG, ["there is no owner key {}", shown(name)],
            ["put it back, or make another with luciactl login"];
        NotKey(name: String) = "key_invalid", CONFIG, ["{} is no P-256 key in PKCS#8 PEM", shown(name)],
            ["put the file back, or make another key with luciactl login"];
        Passphrase(error: PassphraseError) = error.code(), FAILED, ["{error}"], ["{}", error.cure()];
        WrongPassphrase(name: String) = "passphrase_wrong", FAILED, ["that is not the passphrase of {}", shown(name)], ["try again"];
        Make(why: String) = "", FAILED, ["no key can be made: {why}"];
    }
}

/// Makes a key and keeps it; without a passphrase only when told so.
pub(crate) fn make(path: &Path, passphrase: Option<&str>) -> Result<NodeKey, OwnerKeyError> {
    let key = loop {
        let mut bytes = Zeroizing::new([0; 32]);
        random(bytes.as_mut_slice())?;
        if let Some(key) = NodeKey::from_random(&bytes) {
            break key;
        }
    };
    let text = match passphrase {
        Some(passphrase) => {
            let mut salt_and_iv = [0; 32];
            random(&mut salt_and_iv)?;
            seal(&key, passphrase, salt_and_iv)?
        }
        None => key.to_pem().map_err(|error| OwnerKeyError::Make(error.to_string()))?,
    };
    files::create(path, &text).map_err(OwnerKeyError::File)?;
    Ok(key)
}

/// Reads the key; asks for its passphrase where it has one.
pub(crate) fn open(path: &Path, source: Source<'_>) -> Result<NodeKey, OwnerKeyError> {
    let name = path.to_string_lossy();
    let text = Zeroizing::new(files::read(path, KEY_FILE_MAX, Secret::Yes).map_err(|error| {
        if error.is_missing() { OwnerKeyError::Missing(name.to_string()) } else { OwnerKeyError::File(error) }
    })?);
    if text.starts_with(&format!("-----BEGIN {SEALED}-----")) {
        let passphrase = source.known(&shown(&name)).map_err(OwnerKeyError::Passphrase)?;
        unseal(&text, &passphrase, &name)
    } else {
        NodeKey::from_pem(&text).map_err(|_| OwnerKeyError::NotKey(name.into_owned()))
    }
}

/// Fills with what nobody knows.
pub(crate) fn random(bytes: &mut [u8]) -> Result<(), OwnerKeyError> {
    getrandom::fill(bytes).map_err(|error| OwnerKeyError::Make(error.to_string()))
}

fn seal(key: &NodeKey, passphrase: &str, salt_and_iv: [u8; 32]) -> Result<Zeroizing<String>, OwnerKeyError> {
    let failed = |error: &dyn std::fmt::Display| OwnerKeyError::Make(error.to_string());
    let plain = key.to_pem().map_err(|error| failed(&error))?;
    let der = Zeroizing::new(pem::one(&plain, PLAIN, plain.len()).map_err(|error| failed(&error))?);
    let (log_n, r, p) = SCRYPT;
    let cost = scrypt::Params::new(log_n, r, p).map_err(|error| failed(&error))?;
    let (salt, iv) = salt_and_iv.split_at(16);
    let iv = iv.try_into().map_err(|error| failed(&error))?;
    let how = pbes2::Parameters::generate_scrypt_aes256cbc(cost, salt, iv).map_err(|error| failed(&error))?;
    let info = PrivateKeyInfoRef::try_from(der.as_slice()).map_err(|error| failed(&error))?;
    let sealed = info.encrypt_with_params(how, passphrase).map_err(|error| failed(&error))?;
    sealed.to_pem(SEALED, LineEnding::LF).map_err(|error| failed(&error))
}

fn unseal(text: &str, passphrase: &str, name: &str) -> Result<NodeKey, OwnerKeyError> {
    let not_key = || OwnerKeyError::NotKey(name.to_owned());
    let der = pem::one(text, SEALED, text.len()).map_err(|_| not_key())?;
    let sealed = EncryptedPrivateKeyInfoRef::try_from(der.as_slice()).map_err(|_| not_key())?;
    // What a wrong passphrase opens is noise: either its padding is wrong, or it is no key.
    let opened = sealed.decrypt(passphrase).map_err(|_| OwnerKeyError::WrongPassphrase(name.to_owned()))?;
    let plain = opened.to_pem(PLAIN, LineEnding::LF).map_err(|_| not_key())?;
    NodeKey::from_pem(&plain).map_err(|_| not_key())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucia_proto::test_support::key;

    // spec: LC-3
    #[test]
    fn a_key_opens_with_its_passphrase_alone() {
        let sealed = seal(&key(7), "correct horse", [5; 32]).unwrap();
        assert!(sealed.starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----\n"), "{}", *sealed);
        let opened = unseal(&sealed, "correct horse", "owner.key").unwrap();
        assert_eq!(opened.public(), key(7).public());
        for wrong in ["", "correct hors", "correct horse ", "Correct horse"] {
            let error = unseal(&sealed, wrong, "owner.key").unwrap_err();
            assert!(error.to_string().contains("owner.key"), "{error}");
        }
        let other = seal(&key(7), "correct horse", [6; 32]).unwrap();
        assert_ne!(*sealed, *other);
        for bad in [sealed.replacen("\n", "\n\n", 1), sealed.repeat(2), sealed[..100].to_owned()] {
            assert!(matches!(unseal(&bad, "correct horse", "owner.key"), Err(OwnerKeyError::NotKey(_))), "{bad}");
        }
    }
}
