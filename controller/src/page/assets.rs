//! The files of the page, the same for everybody: one style, and a script in modules of one concern each.

/// The table of files: each is one row, served under its name.
macro_rules! assets {
    ($($name:ident $file:literal;)*) => {
        /// A file of the page. A closed list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Asset { $($name,)* }

        impl Asset {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name),*];

            pub(crate) const fn path(self) -> &'static str {
                match self { $(Self::$name => concat!("/assets/", $file),)* }
            }

            pub(crate) const fn text(self) -> &'static str {
                match self { $(Self::$name => include_str!(concat!("../../page/", $file)),)* }
            }
        }
    };
}

assets! {
    Style "lucia.css";
    Lucia "lucia.js";
    Call "call.js";
    Keys "keys.js";
    Live "live.js";
    Machines "machines.js";
    Orders "orders.js";
    Passkeys "passkeys.js";
    Refresh "refresh.js";
    Say "say.js";
    Servers "servers.js";
    Standing "standing.js";
    Text "text.js";
}

impl Asset {
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::Style => "text/css; charset=utf-8",
            _ => "text/javascript; charset=utf-8",
        }
    }
}
