//! Text that fits a terminal: broken between words, and what goes on stands under where it began.

/// Columns of an indent that more text still stands beside well.
const HANG_MAX: usize = 20;
/// What begins a command that somebody copies.
const PROGRAMS: [&str; 4] = ["luciactl", "lucia-enrollment-worker", "lucia-node-agent", "lucia-controller"];

/// The same text in lines of at most `width`, as far as words, codes and commands let it. Colours count for nothing.
pub(crate) fn wrapped(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    text.split_inclusive('\n').map(|line| wrapped_line(line, width)).collect()
}

fn wrapped_line(line: &str, width: usize) -> String {
    let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
    let own = text.len() - text.trim_start_matches(' ').len();
    let is_command = own > 0 && PROGRAMS.iter().any(|program| text.trim_start().starts_with(program));
    if columns(text) <= width || is_command {
        return line.to_owned();
    }
    let hang = begins_at(text).filter(|at| *at <= HANG_MAX && at + HANG_MAX <= width).unwrap_or(own);
    let (mut out, mut used) = (String::new(), 0);
    for (gap, part) in parts(text) {
        let length = columns(part);
        // The label and the first word after it stay.
        if used > hang && used + gap + length > width {
            out.push('\n');
            out.push_str(&" ".repeat(hang));
            used = hang;
        } else {
            out.push_str(&" ".repeat(gap));
            used += gap;
        }
        out.push_str(part);
        used += length;
    }
    out + end
}

/// Where the text after a label or a code begins: after the first gap of two columns or more.
fn begins_at(text: &str) -> Option<usize> {
    let indent = text.len() - text.trim_start_matches(' ').len();
    let rest = text.get(indent..)?;
    let gap = rest.find("  ")?;
    let after = rest.get(gap..)?;
    Some(indent + gap + (after.len() - after.trim_start_matches(' ').len()))
}

/// What a line is not broken within, each with the spaces before it: a word, a command between backticks, a program with
/// its verb and what that is about, an option with its value.
fn parts(text: &str) -> Vec<(usize, &str)> {
    let words = words(text);
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some((from, to, gap)) = words.get(at).copied() {
        let mut end = to;
        let quoted = |part: &str| part.matches('`').count() % 2 == 1;
        // How many of the next words go with this one.
        let mut with: usize = if PROGRAMS.contains(&text.get(from..to).unwrap_or_default()) { 2 } else { 0 };
        while let Some((next, next_end, _)) = words.get(at + 1).copied() {
            let so_far = text.get(from..end).unwrap_or_default();
            let is_option = text.get(next..next_end).is_some_and(|word| word.starts_with("--"));
            let ends = so_far.ends_with([',', ';', '.', ':']);
            if !quoted(so_far) && (ends || (with == 0 && !is_option)) {
                break;
            }
            with = if is_option { 1 } else { with.saturating_sub(1) };
            (end, at) = (next_end, at + 1);
        }
        parts.push((gap, text.get(from..end).unwrap_or_default()));
        at += 1;
    }
    parts
}

/// Each word: where it begins and ends, and the spaces before it.
fn words(text: &str) -> Vec<(usize, usize, usize)> {
    let (mut words, mut end) = (Vec::new(), 0);
    let mut rest = text;
    while let Some(gap) = rest.find(|c| c != ' ') {
        let from = end + gap;
        let word = text.get(from..).unwrap_or_default();
        let length = word.find(' ').unwrap_or(word.len());
        words.push((from, from + length, gap));
        end = from + length;
        rest = text.get(end..).unwrap_or_default();
    }
    words
}

/// How many columns it takes: colours take none.
fn columns(text: &str) -> usize {
    let (mut count, mut in_colour) = (0, false);
    for c in text.chars() {
        match (in_colour, c) {
            (false, '\u{1b}') => in_colour = true,
            (true, 'm') => in_colour = false,
            (true, _) => (),
            (false, _) => count += 1,
        }
    }
    count
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
