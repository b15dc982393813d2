//! Mutations for the bounded run: the same for the same number, and most of what a fuzzer does in its first minutes.

/// SplitMix64.
#[derive(Debug)]
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(count.max(1)).unwrap()).unwrap()
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let (a, b) = (self.below(length + 1), self.below(length + 1));
        let (from, to) = (a.min(b), a.max(b));
        // Short ones more often than long ones.
        if self.below(4) == 0 { from..to } else { from..to.min(from + 16) }
    }
}

/// Words that no chance finds, in the form of libFuzzer: `"word"` a line, `\xAB` for a byte.
#[must_use]
pub fn words(dictionary: &str) -> Vec<Vec<u8>> {
    let quoted = |line: &str| {
        let text = line.trim().strip_prefix('"')?.strip_suffix('"')?.as_bytes().to_vec();
        let (mut out, mut at) = (Vec::new(), 0);
        while at < text.len() {
            match &text[at..] {
                [b'\\', b'x', high, low, ..] => {
                    let digits = [*high, *low];
                    out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                    at += 4;
                }
                [b'\\', other, ..] => {
                    out.push(*other);
                    at += 2;
                }
                [byte, ..] => {
                    out.push(*byte);
                    at += 1;
                }
                [] => {}
            }
        }
        Some(out)
    };
    dictionary.lines().filter_map(quoted).collect()
}

/// Mutation number `number` of this seed. `others` are seeds it may take parts of.
#[must_use]
pub fn mutate(seed: &[u8], number: u64, others: &[&[u8]], words: &[Vec<u8>]) -> Vec<u8> {
    let mut draw = Draw(number ^ u64::try_from(seed.len()).unwrap().rotate_left(32));
    let mut bytes = seed.to_vec();
    for _ in 0..=draw.below(3) {
        once(&mut bytes, &mut draw, others, words);
    }
    bytes
}

fn once(bytes: &mut Vec<u8>, draw: &mut Draw, others: &[&[u8]], words: &[Vec<u8>]) {
    let at = draw.below(bytes.len());
    match draw.below(9) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << draw.below(8),
        1 if !bytes.is_empty() => {
            let interesting =
                [0, 1, 0x20, 0x2f, 0x30, 0x39, 0x5c, 0x7f, 0x80, 0x81, 0x82, 0xa0, 0xbf, 0xff, b'"', b'-'];
            bytes[at] = interesting[draw.below(interesting.len())];
        }
        2 => bytes.truncate(at),
        3 => {
            let range = draw.range(bytes.len());
            bytes.drain(range);
        }
        4 => {
            let range = draw.range(bytes.len());
            let copy = bytes[range].to_vec();
            bytes.splice(at..at, copy);
        }
        5 if !others.is_empty() => {
            let other = others[draw.below(others.len())];
            let (range, copy) = (draw.range(bytes.len()), draw.range(other.len()));
            bytes.splice(range, other[copy].iter().copied());
        }
        6 => bytes.extend(std::iter::repeat_n(*bytes.get(at).unwrap_or(&0), draw.below(64))),
        _ if !words.is_empty() => {
            let word = &words[draw.below(words.len())];
            // Put in, or over what is there.
            let end = if draw.below(2) == 0 { at } else { bytes.len().min(at + word.len()) };
            bytes.splice(at..end, word.iter().copied());
        }
        _ => bytes.push(0),
    }
}
