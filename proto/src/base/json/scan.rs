//! The first pass: the whole text, every key, string and number in it, read or not.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::error::{JsonError, JsonErrorKind};
use super::escape::unescape;

/// Levels that the recursion below can bear whatever a caller asks for: protects the stack.
const HARD_MAX_DEPTH: usize = 128;
/// Keys of one object compared one by one; beyond, a set: protects the processor from 128 KiB of tiny keys.
const LINEAR_KEYS: usize = 32;
/// Digits of one number. 17 name any double; 30 are a sign of something else.
const MAX_DIGITS: usize = 29;
/// The largest integer that every reader of JSON keeps exactly: 2^53.
const MAX_EXACT: u64 = 1 << 53;

/// Proves that `text` is one strict object. Says the first place that is not.
pub(super) fn scan(text: &str, max_depth: usize) -> Result<(), JsonError> {
    let mut scanner = Scanner { text, bytes: text.as_bytes(), at: 0, max_depth, keys: Vec::new() };
    scanner.skip_space();
    if scanner.peek() != Some(b'{') {
        return Err(JsonError::new(JsonErrorKind::NotAnObject));
    }
    scanner.value(1)?;
    scanner.skip_space();
    match scanner.peek() {
        None => Ok(()),
        Some(_) => Err(JsonError::new(JsonErrorKind::Trailing)),
    }
}

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    max_depth: usize,
    /// Keys of the objects that are open now, the innermost last: one allocation for the whole text.
    keys: Vec<Cow<'a, str>>,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.eat(byte) { Ok(()) } else { Err(syntax()) }
    }

    /// One value; `depth` is its level if it is an object or an array.
    fn value(&mut self, depth: usize) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'{') => self.object(self.level(depth)?),
            Some(b'[') => self.array(self.level(depth)?),
            Some(b'"') => self.raw_string().map(|_| ()),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(syntax()),
        }
    }

    fn level(&self, depth: usize) -> Result<usize, JsonError> {
        let max_depth = self.max_depth.min(HARD_MAX_DEPTH);
        if depth > max_depth { Err(JsonError::new(JsonErrorKind::TooDeep { max_depth })) } else { Ok(depth) }
    }

    fn object(&mut self, depth: usize) -> Result<(), JsonError> {
        self.at += 1;
        self.skip_space();
        if self.eat(b'}') {
            return Ok(());
        }
        let first = self.keys.len();
        let mut many: BTreeSet<Cow<'a, str>> = BTreeSet::new();
        loop {
            let key = self.key()?;
            let others = self.keys.get(first..).unwrap_or_default();
            let fresh = if others.len() < LINEAR_KEYS {
                !others.contains(&key)
            } else {
                if many.is_empty() {
                    many.extend(others.iter().cloned());
                }
                many.insert(key.clone())
            };
            if !fresh {
                return Err(JsonError::new(JsonErrorKind::DuplicateKey).in_field(&key));
            }
            if others.len() < LINEAR_KEYS {
                self.keys.push(key.clone());
            }
            self.skip_space();
            self.expect(b':').map_err(|e| e.in_field(&key))?;
            self.skip_space();
            self.value(depth + 1).map_err(|e| e.in_field(&key))?;
            self.skip_space();
            if self.eat(b'}') {
                self.keys.truncate(first);
                return Ok(());
            }
            self.expect(b',')?;
            self.skip_space();
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), JsonError> {
        self.at += 1;
        self.skip_space();
        if self.eat(b']') {
            return Ok(());
        }
        let mut index = 0;
        loop {
            self.value(depth + 1).map_err(|e| e.at_index(index))?;
            self.skip_space();
            if self.eat(b']') {
                return Ok(());
            }
            self.expect(b',')?;
            self.skip_space();
            index += 1;
        }
    }

    fn word(&mut self, word: &str) -> Result<(), JsonError> {
        let there = self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes()));
        self.at += word.len();
        if there { Ok(()) } else { Err(syntax()) }
    }

    /// One key; returns what it spells.
    fn key(&mut self) -> Result<Cow<'a, str>, JsonError> {
        match self.raw_string()? {
            (raw, true) => unescape(raw).map(Cow::Owned).ok_or_else(syntax),
            (raw, false) => Ok(Cow::Borrowed(raw)),
        }
    }

    /// One string; returns it as it is written, and whether it has escapes.
    fn raw_string(&mut self) -> Result<(&'a str, bool), JsonError> {
        self.expect(b'"')?;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at += plain_length(self.bytes.get(self.at..).unwrap_or_default());
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                None | Some(0..=0x1f) => return Err(syntax()),
                Some(_) => {
                    let character = self.text.get(self.at..).and_then(|rest| rest.chars().next()).ok_or_else(syntax)?;
                    allowed(character)?;
                    self.at += character.len_utf8();
                }
            }
        }
        let raw = self.text.get(start..self.at).ok_or_else(syntax)?;
        self.at += 1;
        Ok((raw, escaped))
    }

    /// One `\` sequence, both halves of a surrogate pair at once.
    fn escape(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        let kind = self.peek().ok_or_else(syntax)?;
        self.at += 1;
        match kind {
            b'"' | b'\\' | b'/' | b'n' | b't' => Ok(()),
            b'b' | b'f' | b'r' => Err(JsonError::new(JsonErrorKind::Character)),
            b'u' => {
                let unit = self.hex4()?;
                let scalar = if (0xd800..0xdc00).contains(&unit) {
                    if !(self.eat(b'\\') && self.eat(b'u')) {
                        return Err(JsonError::new(JsonErrorKind::Character));
                    }
                    let low = self.hex4()?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return Err(JsonError::new(JsonErrorKind::Character));
                    }
                    0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
                } else {
                    unit
                };
                allowed(char::from_u32(scalar).ok_or_else(|| JsonError::new(JsonErrorKind::Character))?)
            }
            _ => Err(syntax()),
        }
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let digits = self.bytes.get(self.at..self.at + 4).ok_or_else(syntax)?;
        let mut unit = 0;
        for digit in digits {
            unit = unit * 16 + char::from(*digit).to_digit(16).ok_or_else(syntax)?;
        }
        self.at += 4;
        Ok(unit)
    }

    fn number(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        let negative = self.eat(b'-');
        let leading_zero = self.peek() == Some(b'0');
        let whole = self.digits()?;
        if leading_zero && whole > 1 {
            return Err(syntax());
        }
        let mut digits = whole;
        let mut integer = true;
        if self.eat(b'.') {
            integer = false;
            digits += self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            integer = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            digits += self.digits()?;
        }
        let text = self.text.get(start..self.at).ok_or_else(syntax)?;
        let exact = digits <= MAX_DIGITS && if integer { exact_integer(text, negative) } else { exact_fraction(text) };
        if exact { Ok(()) } else { Err(JsonError::new(JsonErrorKind::Number)) }
    }

    /// One or more digits; returns how many.
    fn digits(&mut self) -> Result<usize, JsonError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { Err(syntax()) } else { Ok(self.at - start) }
    }
}

/// How many bytes from the start need no look of their own: printable ASCII but quote and backslash.
pub(super) fn plain_length(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut length = 0;
    for word in words {
        match special(u64::from_le_bytes(*word)) {
            0 => length += 8,
            // The lowest bit is the first special byte's; usize holds at most 8.
            marks => return length + usize::try_from(marks.trailing_zeros() / 8).unwrap_or(0),
        }
    }
    let is_special = |byte: &u8| !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\');
    length + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// Marks each special byte of eight in its highest bit; a mark above the lowest one may be false, because a
/// subtraction borrows upwards. Eight bytes at once make this scan as fast in a small binary as in a fast one.
const fn special(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    const fn zero(word: u64) -> u64 {
        word.wrapping_sub(ONES) & !word
    }
    let below_space = word.wrapping_sub(b' ' as u64 * ONES) & !word;
    let quote = zero(word ^ (b'"' as u64 * ONES));
    let backslash = zero(word ^ (b'\\' as u64 * ONES));
    let delete = zero(word ^ (0x7f * ONES));
    (below_space | quote | backslash | delete | word) & HIGH
}

fn exact_integer(text: &str, negative: bool) -> bool {
    match text.trim_start_matches('-').parse::<u64>() {
        Ok(0) => !negative,
        Ok(magnitude) => magnitude <= MAX_EXACT,
        Err(_) => false,
    }
}

/// Finite, not a negative zero, and not a small number that became zero.
fn exact_fraction(text: &str) -> bool {
    match text.parse::<f64>() {
        Ok(0.0) => {
            let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
            !text.starts_with('-') && !mantissa.contains(|c| matches!(c, '1'..='9'))
        }
        Ok(value) => value.is_finite(),
        Err(_) => false,
    }
}

fn allowed(character: char) -> Result<(), JsonError> {
    let control = character.is_control() && !matches!(character, '\n' | '\t');
    // U+FFFE and U+FFFF, and their like in every plane, are not characters.
    let not_a_character = u32::from(character) & 0xfffe == 0xfffe;
    if control || not_a_character { Err(JsonError::new(JsonErrorKind::Character)) } else { Ok(()) }
}

fn syntax() -> JsonError {
    JsonError::new(JsonErrorKind::Syntax)
}
