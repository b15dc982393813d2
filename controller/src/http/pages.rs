//! The documents and files of the page.

/// The table of documents.
macro_rules! pages {
    ($($name:ident $path:literal $who:ident;)*) => {
        /// A document or a file of the page. A closed list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Page { $($name,)* }

        impl Page {
            pub(super) const ALL: &'static [Self] = &[$(Self::$name),*];

            pub(super) const fn path(self) -> &'static str {
                match self { $(Self::$name => $path,)* }
            }

            /// Whether it is there before signing in.
            pub(super) const fn is_for_anyone(self) -> bool {
                let who = match self { $(Self::$name => Reader::$who,)* };
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
    Style "/assets/lucia.css" Anyone;
    Script "/assets/lucia.js" Anyone;
}

/// With this header the page asks by itself, and nobody is kept signed in by that.
pub(super) const BACKGROUND: &str = "lucia-background";
