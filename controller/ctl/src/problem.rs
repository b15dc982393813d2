//! Why a verb did not do its work: a text, what cures it, a code for programs, and an exit status. Each noun has its own
//! table of problems; nothing here knows any of them.

use std::any::Any;
use std::fmt::{Debug, Display};

pub(crate) use lucia_daemon::exit::{CONFIG, FAILED, USAGE};
use lucia_proto::pki::key::VerificationCode;

/// Nobody answers (sysexits.h).
pub(crate) const UNAVAILABLE: u8 = 69;

/// One problem; what it displays is without its cure.
pub(crate) trait Problem: Any + Debug + Display {
    /// The word for programs; empty where the exit status says it all.
    fn code(&self) -> &'static str;

    /// The exit status.
    fn exit(&self) -> u8;

    /// What cures it; empty where its text says all there is. With a capital it is a line of its own.
    fn cure(&self) -> String;
}

/// A table of problems: `Variant(member: Type) = code, exit status, [text], [cure];`, the last two as `format!` takes them.
macro_rules! problems {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($variant:ident $(($($member:ident: $type:ty),+))? = $code:expr, $exit:expr, [$($text:tt)+] $(, [$($cure:tt)+])?;)+
    }) => {
        $(#[$meta])*
        #[derive(Debug)]
        $vis enum $name { $($variant $(($($type),+))?),+ }

        impl std::fmt::Display for $name {
            #[allow(unused_variables, reason = "a text need not name every member")]
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self { $(Self::$variant $(($($member),+))? => write!(f, $($text)+)),+ }
            }
        }

        #[allow(unused_variables, reason = "nor a code, nor a cure")]
        impl $crate::problem::Problem for $name {
            fn code(&self) -> &'static str {
                match self { $(Self::$variant $(($($member),+))? => $code),+ }
            }

            fn exit(&self) -> u8 {
                match self { $(Self::$variant $(($($member),+))? => $exit),+ }
            }

            fn cure(&self) -> String {
                match self { $(Self::$variant $(($($member),+))? => problems!(@cure $($($cure)+)?)),+ }
            }
        }
    };
    (@cure) => { String::new() };
    (@cure $($cure:tt)+) => { format!($($cure)+) };
}
pub(crate) use problems;

/// How far an order came that failed after it was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// There is no signature.
    Unsigned,
    /// There is one, and it is here.
    Unsent(VerificationCode),
    /// There is one, and nobody answered to it.
    Unanswered(VerificationCode),
    /// The controller said no to it.
    NotTaken(VerificationCode),
}

impl Ending {
    /// What stands under the problem, and what to run for it.
    fn words(&self) -> (&'static str, String) {
        match self {
            Self::Unsigned => ("Nothing was signed.", String::new()),
            Self::Unsent(code) => ("It is signed, but not sent:", format!("run luciactl sign {code} again.")),
            Self::Unanswered(code) => (
                "It is signed, but whether it arrived is not known:",
                format!("run luciactl sign {code} again, which says so if it did."),
            ),
            Self::NotTaken(code) => (
                "It is signed, but the controller did not take the signature.",
                format!("Once that is cured: luciactl sign {code}"),
            ),
        }
    }
}

/// A verb that did not do its work.
#[derive(Debug)]
pub(crate) struct Failure {
    problem: Box<dyn Problem>,
    ending: Option<Ending>,
}

impl<P: Problem> From<P> for Failure {
    fn from(problem: P) -> Self {
        Self { problem: Box::new(problem), ending: None }
    }
}

impl Failure {
    /// The sentence for the person.
    pub(crate) fn sentence(&self) -> String {
        let (problem, cure) = (&self.problem, self.problem.cure());
        let mut sentence = match cure.chars().next() {
            None => problem.to_string(),
            Some(first) if first.is_uppercase() => format!("{problem}\n{cure}"),
            Some(_) => format!("{problem}; {cure}"),
        };
        if let Some(ending) = &self.ending {
            let (what, cure) = ending.words();
            sentence.push_str(format!("\n{what} {cure}").trim_end());
        }
        sentence
    }

    /// What cures it, as far as is known.
    pub(crate) fn cure(&self) -> Option<String> {
        let ending = self.ending.as_ref().map(|ending| ending.words().1);
        [ending.unwrap_or_default(), self.problem.cure()].into_iter().find(|cure| !cure.is_empty())
    }

    /// The word for programs: the controller's own code where it refused, else one of ours.
    pub(crate) fn code(&self) -> &'static str {
        match (self.problem.code(), self.exit()) {
            ("", USAGE) => "usage",
            ("", UNAVAILABLE) => "unreachable",
            ("", CONFIG) => "config",
            ("", _) => "failed",
            (code, _) => code,
        }
    }

    /// The exit status.
    pub(crate) fn exit(&self) -> u8 {
        self.problem.exit()
    }

    /// The problem, if it is one of these.
    pub(crate) fn as_a<P: Problem>(&self) -> Option<&P> {
        (&*self.problem as &dyn Any).downcast_ref()
    }

    /// The same, of an order that was shown, and how far it came. One that ended says so by itself.
    pub(crate) fn ended(self, ending: Ending) -> Self {
        Self { ending: self.ending.or(Some(ending)), ..self }
    }

    /// The same, of an order that was shown and is not signed.
    pub(crate) fn unsigned(self) -> Self {
        if self.code() == NOT_CONFIRMED { self } else { self.ended(Ending::Unsigned) }
    }

    /// Whether there is a signature of the order that this was about.
    pub(crate) const fn is_signed(&self) -> bool {
        !matches!(self.ending, None | Some(Ending::Unsigned))
    }
}

/// The code of a question that was answered otherwise, which says by itself that nothing was done.
pub(crate) const NOT_CONFIRMED: &str = "not_confirmed";
