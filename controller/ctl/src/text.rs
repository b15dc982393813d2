//! Text that fits a terminal: lines with a label, and lines broken between words, where what goes on stands under where
//! it began.

use std::fmt::Write as _;

use lucia_proto::base::text::span;
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::key::Fingerprint;
use textwrap::core::display_width;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm, wrap};

/// Columns of an indent that more text still stands beside well.
const HANG_MAX: usize = 20;
/// What begins a command that somebody copies.
const PROGRAMS: [&str; 4] = ["luciactl", "lucia-enrollment-worker", "lucia-node-agent", "lucia-controller"];
/// Stands for a space that no line is broken at.
const HELD: &str = "\u{a0}";

pub(crate) fn line(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "  {name:<11}  {value}");
}

/// A fingerprint as it is to be compared by eye, in two rows.
pub(crate) fn compared(out: &mut String, name: &str, key: &Fingerprint) {
    let [first, second] = key.rows();
    line(out, name, &first);
    line(out, "", &second);
}

/// How long it is until then.
pub(crate) fn left(now: UnixTime, until: UnixTime) -> String {
    span(until.since(now))
}

/// The same text in lines of at most `width`, as far as words, codes and commands let it. Colours count for nothing.
pub(crate) fn wrapped(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    text.split_inclusive('\n').map(|line| wrapped_line(line, width)).collect()
}

fn wrapped_line(line: &str, width: usize) -> String {
    let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
    let indent = text.len() - text.trim_start_matches(' ').len();
    let is_command = indent > 0 && PROGRAMS.iter().any(|program| text.trim_start().starts_with(program));
    if display_width(text) <= width || is_command {
        return line.to_owned();
    }
    let hang = begins_at(text).filter(|at| *at <= HANG_MAX && at + HANG_MAX <= width).unwrap_or(indent);
    // The label and the first word after it stay.
    let (label, rest) = text.split_at(hang);
    let held = label.replace(' ', HELD) + &held(rest);
    let hang = " ".repeat(hang);
    let how = Options::new(width).subsequent_indent(&hang).break_words(false).wrap_algorithm(WrapAlgorithm::FirstFit);
    let how = how.word_separator(WordSeparator::AsciiSpace).word_splitter(WordSplitter::NoHyphenation);
    wrap(&held, how).join("\n").replace(HELD, " ") + end
}

/// Where the text after a label or a code begins: after the first gap of two columns or more.
fn begins_at(text: &str) -> Option<usize> {
    let indent = text.len() - text.trim_start_matches(' ').len();
    let rest = text.get(indent..)?;
    let gap = rest.find("  ")?;
    let after = rest.get(gap..)?;
    Some(indent + gap + (after.len() - after.trim_start_matches(' ').len()))
}

/// Holds together what a line is not broken within: a command between backticks, a program with its verb and what that is
/// about, an option with its value.
fn held(text: &str) -> String {
    let (mut out, mut is_quoted, mut with) = (String::new(), false, 0_u8);
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        out.push_str(word);
        is_quoted ^= word.matches('`').count() % 2 == 1;
        if PROGRAMS.contains(&word) {
            with = 2;
        }
        let Some(next) = words.peek() else { break };
        let is_option = next.starts_with("--");
        let is_held = is_quoted || (!word.ends_with([',', ';', '.', ':']) && (with > 0 || is_option));
        with = match (is_held, is_option) {
            (true, true) => 1,
            (true, false) => with.saturating_sub(1),
            (false, _) => 0,
        };
        out.push_str(if is_held { HELD } else { " " });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: LC-101
    #[test]
    fn a_line_is_broken_between_words_and_goes_on_under_its_text() {
        let text =
            "  finding      its certificate ended 3 d ago, so an owner lets it renew: luciactl release-lapse web-1\n";
        assert_eq!(
            wrapped(text, Some(60)),
            "  finding      its certificate ended 3 d ago, so an owner\n               lets it renew: luciactl release-lapse \
             web-1\n"
        );
        assert_eq!(wrapped(text, None), text);
        assert_eq!(wrapped(text, Some(200)), text);
        let order = "1a2b-3c4d-5e6f  Replaced by a later order, and more of it\n";
        assert_eq!(
            wrapped(order, Some(44)),
            "1a2b-3c4d-5e6f  Replaced by a later order,\n                and more of it\n"
        );
        let plain = "No devices. Open the window first.\nAnd then\n";
        assert_eq!(wrapped(plain, Some(20)), "No devices. Open the\nwindow first.\nAnd then\n");
    }

    // spec: LC-101
    #[test]
    fn codes_and_commands_are_never_broken() {
        let command = "               luciactl approve 1a2b-3c4d-5e6f --hostname NAME --disk ID --fingerprint HEX\n";
        // Its words go by no option, so nothing but its being a command keeps them together.
        let many = "      luciactl keys add alice laptop.pub web-1 web-2 web-3 web-4 web-5\n";
        let quoted = "  next         on its host somebody runs `lucia-enrollment-worker pending --all` and looks\n";
        let key = format!("  key          {}\n", "f".repeat(64));
        for width in 1..120 {
            assert_eq!(wrapped(command, Some(width)), command);
            assert_eq!(wrapped(many, Some(width)), many);
            let text = wrapped(quoted, Some(width));
            assert!(text.contains("`lucia-enrollment-worker pending --all`"), "{width}: {text}");
            assert!(wrapped(&key, Some(width)).contains(&"f".repeat(64)));
            let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(flat(&text), flat(quoted), "{width}");
        }
        let said = "  orders       first this, then that: lucia-enrollment-worker admit web-1 --replaces web-2 today\n";
        let text = wrapped(said, Some(40));
        assert!(text.contains("lucia-enrollment-worker admit web-1 --replaces web-2\n"), "{text}");
    }

    // spec: LC-101
    #[test]
    fn colours_take_no_column() {
        let text = "  state        \u{1b}[32mready\u{1b}[0m and so on\n";
        assert_eq!(wrapped(text, Some(30)), text);
        assert_eq!(wrapped(text, Some(21)), text.replace(" and so on", "\n  and so on"));
    }
}
