//! The owners' files between controller and worker, and the names they have.

use lucia_proto::files::owner_queue::{ApplicationFile, FreshnessFile, OrderAnswerFile, OwnerFile};
use lucia_proto::orders::SignedOrder;
use lucia_proto::orders::application::Application;
use lucia_proto::orders::freshness::FreshnessRequest;

use super::twice;

/// Reads and writes a file as its own type does it.
macro_rules! file {
    ($name:ident, $input:expr) => {{
        let read = $name::from_bytes($input).ok();
        if let Some(value) = &read {
            let bytes = value.to_bytes().unwrap();
            assert_eq!(&$name::from_bytes(&bytes).unwrap(), value, "{}", String::from_utf8_lossy(&bytes));
            assert_eq!(twice::<$name>($input, usize::MAX).as_ref(), Some(value));
        }
        read
    }};
}

pub(super) fn run(input: &[u8]) {
    if let Ok(name) = std::str::from_utf8(input)
        && let Some(of) = OwnerFile::of_name(name)
    {
        assert_eq!(of.name(), name, "two names of one file");
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.')), "{name:?}");
    }
    file!(FreshnessRequest, input);
    file!(FreshnessFile, input);
    file!(OrderAnswerFile, input);
    if let Some(order) = file!(SignedOrder, input) {
        assert_eq!(
            OwnerFile::of_name(&OwnerFile::OrderHead(order.id()).name()),
            Some(OwnerFile::OrderHead(order.id()))
        );
    }
    if let Some(ApplicationFile { application, .. }) = file!(ApplicationFile, input) {
        applied(&application);
    }
    twice::<Application>(input, usize::MAX).as_ref().into_iter().for_each(applied);
}

/// Whoever asks has the key, and asks under this one name.
fn applied(application: &Application) {
    let Ok(key) = application.verify() else { return };
    assert_eq!(key.to_pem().trim_end(), application.public_key_pem.trim_end());
    let renamed = Application { name: "somebody".parse().unwrap(), ..application.clone() };
    assert!(renamed.verify().is_err() || renamed.name == application.name, "a name that nobody signed");
}
