//! The documents and files of the page.

use crate::page::Asset;

/// The table of documents.
macro_rules! pages {
    ($($name:ident $path:literal $who:ident;)*) => {
        /// A document or a file of the page. A closed list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Page { $($name,)* File(Asset) }

        impl Page {
            /// Every document and every file.
            pub(super) fn all() -> impl Iterator<Item = Self> {
                [$(Self::$name),*].into_iter().chain(Asset::ALL.iter().copied().map(Self::File))
            }

            pub(super) const fn path(self) -> &'static str {
                match self { $(Self::$name => $path,)* Self::File(file) => file.path() }
            }

            /// Whether it is there before signing in.
            pub(super) const fn is_for_anyone(self) -> bool {
                let who = match self { $(Self::$name => Reader::$who,)* Self::File(_) => Reader::Anyone };
                matches!(who, Reader::Anyone)
            }
        }
    };
}

enum Reader {
    Anyone,
    SignedIn,
}

pages! {
    Servers "/" SignedIn;
    Server "/servers/{id}" SignedIn;
    Device "/devices/{id}" SignedIn;
    Orders "/orders" SignedIn;
    Order "/orders/{code}" SignedIn;
    Keys "/keys" SignedIn;
    Owners "/owners" SignedIn;
    Audit "/audit" SignedIn;
    Window "/window" SignedIn;
    SignIn "/sign-in" Anyone;
    Passkeys "/passkeys" Anyone;
}

/// With this header the page asks by itself, and nobody is kept signed in by that.
pub(super) const BACKGROUND: &str = "lucia-background";
