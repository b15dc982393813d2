//! Looks at the raw bytes of each request head, before anything parses them (threats.md H-3..H-5, B-35).
//!
//! A parser decides between readings and forgets that there were two: hyper drops a Content-Length that follows a
//! Transfer-Encoding, and a repeated one that is equal, and takes a bare line feed for a line end. What reaches us is
//! one reading; a proxy in front may have taken another. So a head with two readings is refused here, as a whole.

/// Longest name among those that are counted: `transfer-encoding`. Longer names matter to nobody here.
const NAME_MAX: usize = 17;
/// A value that matters is a length of at most 19 digits or the word `chunked`.
const VALUE_MAX: usize = 24;
/// Longest head in bytes: a proof header of 24 KiB with room for the rest.
pub(super) const HEAD_MAX: usize = 32 * 1024;

/// What may be sent on after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// One reading, and a body of exactly this many bytes.
    Length(u64),
    /// One reading, and a body in chunks: where it ends only the parser knows.
    Chunked,
    /// Not one reading.
    Bad(BadHead),
}

/// Why a head has not one reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadHead {
    TooLong,
    LineFeed,
    CarriageReturn,
    Control,
    EightBit,
    Folded,
    Fragment,
    NoRequestLine,
    NoName,
    Space,
    LengthNumber,
    Coding,
    Hosts,
    Lengths,
    Codings,
    LengthAndCoding,
    Missing,
}

impl BadHead {
    /// For the log.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "head too long",
            Self::LineFeed => "bare line feed",
            Self::CarriageReturn => "bare carriage return",
            Self::Control => "control character",
            Self::EightBit => "8-bit character",
            Self::Folded => "folded or empty line",
            Self::Fragment => "fragment in the request line",
            Self::NoRequestLine => "no request line",
            Self::NoName => "header without name or colon",
            Self::Space => "space before the colon",
            Self::LengthNumber => "Content-Length is not one number",
            Self::Coding => "Transfer-Encoding other than chunked",
            Self::Hosts => "not exactly one Host",
            Self::Lengths => "more than one Content-Length",
            Self::Codings => "more than one Transfer-Encoding",
            Self::LengthAndCoding => "Content-Length with Transfer-Encoding",
            Self::Missing => "no head",
        }
    }
}

/// A head as far as it has arrived.
#[derive(Debug, Default)]
pub(super) struct HeadScan {
    size: usize,
    lines: usize,
    line: Line,
    previous: u8,
    hosts: u32,
    lengths: u32,
    codings: u32,
    length: u64,
    chunked: bool,
    bad: Option<BadHead>,
}

/// The line that is being read, cut to what matters.
#[derive(Debug, Default)]
struct Line {
    length: usize,
    name: Vec<u8>,
    value: Vec<u8>,
    in_value: bool,
}

impl HeadScan {
    /// Takes bytes of the head. When the head ends among them: how many of them belong to it, and the verdict.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<(usize, Verdict)> {
        for (at, byte) in bytes.iter().enumerate() {
            let ended = self.byte(*byte);
            self.previous = *byte;
            if ended {
                return Some((at + 1, self.verdict()));
            }
        }
        None
    }

    fn byte(&mut self, byte: u8) -> bool {
        self.size += 1;
        if self.size > HEAD_MAX {
            self.refuse(BadHead::TooLong);
        }
        match byte {
            b'\n' => {
                if self.previous != b'\r' {
                    self.refuse(BadHead::LineFeed);
                }
                return self.line_end();
            }
            _ if self.previous == b'\r' => self.refuse(BadHead::CarriageReturn),
            _ => {}
        }
        match byte {
            b'\r' => {}
            b'\t' if self.line.in_value => self.line.push(byte),
            0..=0x1f | 0x7f => self.refuse(BadHead::Control),
            0x80.. => self.refuse(BadHead::EightBit),
            b' ' if self.line.length == 0 => self.refuse(BadHead::Folded),
            // The parser would drop it and what follows: a second spelling of a path.
            b'#' if self.lines == 0 => self.refuse(BadHead::Fragment),
            _ => self.line.push(byte),
        }
        false
    }

    fn line_end(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        self.lines += 1;
        if line.length == 0 {
            if self.lines == 1 {
                self.refuse(BadHead::NoRequestLine);
            }
            return true;
        }
        if self.lines == 1 {
            return false;
        }
        if !line.in_value || line.name.is_empty() {
            self.refuse(BadHead::NoName);
        }
        if line.name.last() == Some(&b' ') {
            self.refuse(BadHead::Space);
        }
        match line.name.as_slice() {
            b"host" => self.hosts += 1,
            b"content-length" => {
                self.lengths += 1;
                match decimal(line.value.trim_ascii()) {
                    Some(length) => self.length = length,
                    None => self.refuse(BadHead::LengthNumber),
                }
            }
            b"transfer-encoding" => {
                self.codings += 1;
                self.chunked = line.value.trim_ascii().eq_ignore_ascii_case(b"chunked");
                if !self.chunked {
                    self.refuse(BadHead::Coding);
                }
            }
            _ => {}
        }
        false
    }

    fn verdict(&mut self) -> Verdict {
        for (wrong, reason) in [
            (self.hosts != 1, BadHead::Hosts),
            (self.lengths > 1, BadHead::Lengths),
            (self.codings > 1, BadHead::Codings),
            (self.lengths > 0 && self.codings > 0, BadHead::LengthAndCoding),
        ] {
            if wrong {
                self.refuse(reason);
            }
        }
        match self.bad {
            Some(reason) => Verdict::Bad(reason),
            None if self.chunked => Verdict::Chunked,
            None => Verdict::Length(self.length),
        }
    }

    /// The first reason stays.
    fn refuse(&mut self, reason: BadHead) {
        self.bad.get_or_insert(reason);
    }
}

impl Line {
    fn push(&mut self, byte: u8) {
        self.length += 1;
        if self.in_value {
            // One byte more than matters, so that a longer value is seen to be longer.
            if self.value.len() <= VALUE_MAX && !(self.value.is_empty() && byte == b' ') {
                self.value.push(byte);
            }
        } else if byte == b':' {
            self.in_value = true;
        } else if self.name.len() <= NAME_MAX {
            self.name.push(byte.to_ascii_lowercase());
        } else if byte == b' ' {
            // Past what is compared, a space is still the space before a colon.
            self.name.truncate(NAME_MAX);
            self.name.push(b' ');
        }
    }
}

/// Digits and nothing else: no sign, no list, no spelling with leading zeros beyond `0` itself.
fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 || (text.len() > 1 && text.first() == Some(&b'0')) {
        return None;
    }
    text.iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'9' => Some(value * 10 + u64::from(digit - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(head: &[u8], want: Verdict) {
        let shown = String::from_utf8_lossy(head);
        assert_eq!(HeadScan::default().push(head), Some((head.len(), want)), "{shown:?}");
        // In whatever pieces it arrives.
        let mut scan = HeadScan::default();
        let (last, first) = head.split_last().unwrap();
        for byte in first {
            assert_eq!(scan.push(std::slice::from_ref(byte)), None, "{shown:?}");
        }
        assert_eq!(scan.push(&[*last]), Some((1, want)), "{shown:?}");
    }

    fn post(headers: &str) -> Vec<u8> {
        format!("POST /api/boot/discover HTTP/1.1\r\nHost: c.example\r\n{headers}\r\n").into_bytes()
    }

    // spec: HT-3
    #[test]
    fn h_3_a_body_has_one_length() {
        for (headers, want) in [
            ("", Verdict::Length(0)),
            ("Content-Length: 3\r\n", Verdict::Length(3)),
            ("content-length:3 \r\n", Verdict::Length(3)),
            ("Transfer-Encoding: chunked\r\n", Verdict::Chunked),
            ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", Verdict::Bad(BadHead::LengthAndCoding)),
            ("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", Verdict::Bad(BadHead::LengthAndCoding)),
            ("Transfer-Encoding: gzip, chunked\r\n", Verdict::Bad(BadHead::Coding)),
            ("Transfer-Encoding: identity\r\n", Verdict::Bad(BadHead::Coding)),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Verdict::Bad(BadHead::Codings)),
            ("Content-Length: 3\r\nContent-Length: 3\r\n", Verdict::Bad(BadHead::Lengths)),
            ("Content-Length: 3\r\nContent-Length: 4\r\n", Verdict::Bad(BadHead::Lengths)),
            ("Content-Length: +3\r\n", Verdict::Bad(BadHead::LengthNumber)),
            ("Content-Length: -3\r\n", Verdict::Bad(BadHead::LengthNumber)),
            ("Content-Length: 3, 3\r\n", Verdict::Bad(BadHead::LengthNumber)),
            ("Content-Length: 03\r\n", Verdict::Bad(BadHead::LengthNumber)),
            ("Content-Length: 0x3\r\n", Verdict::Bad(BadHead::LengthNumber)),
            ("Content-Length:\r\n", Verdict::Bad(BadHead::LengthNumber)),
            ("Content-Length: 99999999999999999999\r\n", Verdict::Bad(BadHead::LengthNumber)),
            ("Content-Length : 3\r\n", Verdict::Bad(BadHead::Space)),
            ("Transfer-Encoding : chunked\r\n", Verdict::Bad(BadHead::Space)),
            ("A-Name-Longer-Than-What-Is-Compared : x\r\n", Verdict::Bad(BadHead::Space)),
        ] {
            check(&post(headers), want);
        }
    }

    // spec: HT-4
    #[test]
    fn h_4_a_request_has_one_host() {
        check(b"GET / HTTP/1.1\r\n\r\n", Verdict::Bad(BadHead::Hosts));
        check(b"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", Verdict::Bad(BadHead::Hosts));
        check(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", Verdict::Length(0));
    }

    // spec: HT-5
    #[test]
    fn h_5_a_head_is_plain_text_with_plain_line_ends() {
        for (head, reason) in [
            (&b"GET / HTTP/1.1\nHost: a\r\n\r\n"[..], BadHead::LineFeed),
            (b"GET / HTTP/1.1\r\nHost: a\n\r\n", BadHead::LineFeed),
            (b"GET / HTTP/1.1\r\nHost: a\r\n\n", BadHead::LineFeed),
            (b"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", BadHead::CarriageReturn),
            (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", BadHead::Folded),
            (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb\r\n\r\n", BadHead::Control),
            (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", BadHead::Control),
            (b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", BadHead::Control),
            (b"GET / HTTP/1.1\r\nHost: a\r\nX: \xc3\xa9\r\n\r\n", BadHead::EightBit),
            (b"GET / HTTP/1.1\r\nHost: a\r\nnocolon\r\n\r\n", BadHead::NoName),
            (b"GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", BadHead::NoName),
            (b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", BadHead::Fragment),
            (b"\r\n", BadHead::NoRequestLine),
        ] {
            check(head, Verdict::Bad(reason));
        }
        check(b"GET / HTTP/1.1\r\nHost: a\r\nX: a\tb#c\r\n\r\n", Verdict::Length(0));
        let long = post(&format!("X: {}\r\n", "a".repeat(HEAD_MAX)));
        check(&long, Verdict::Bad(BadHead::TooLong));
    }

    #[test]
    fn what_follows_the_head_is_not_looked_at() {
        let mut bytes = post("Content-Length: 3\r\n");
        let head = bytes.len();
        bytes.extend_from_slice(b"\0\n\xff");
        assert_eq!(HeadScan::default().push(&bytes), Some((head, Verdict::Length(3))));
    }
}
