//! The second pass: builds the value. The text was scanned, so this one only has to find its way, not to judge.

use std::borrow::Cow;

use serde::de::value::{BorrowedStrDeserializer, StringDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::{JsonError, JsonErrorKind};
use super::escape::unescape;
use super::scan::plain_length;
use crate::base::bounded::TEXT;
use crate::base::text::is_printable;

/// `printable`: text for people must be printable by the rule of today, and not by that of any time.
pub(super) fn read<T: DeserializeOwned>(text: &str, printable: bool) -> Result<T, JsonError> {
    let mut reader = Reader { text, at: 0, printable };
    T::deserialize(&mut reader)
}

struct Reader<'de> {
    text: &'de str,
    at: usize,
    printable: bool,
}

impl<'de> Reader<'de> {
    /// The next byte that is not white space.
    fn peek(&mut self) -> Result<u8, JsonError> {
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(syntax()),
            }
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.peek()? != byte {
            return Err(syntax());
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<Cow<'de, str>, JsonError> {
        self.expect(b'"')?;
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let mut length = 0;
        let mut escaped = false;
        loop {
            length += plain_length(rest.get(length..).unwrap_or_default());
            match rest.get(length) {
                None | Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    length += 2;
                }
                Some(_) => length += 1,
            }
        }
        let raw = self.text.get(self.at..self.at + length).ok_or_else(syntax)?;
        self.at += length + 1;
        if escaped { unescape(raw).map(Cow::Owned).ok_or_else(syntax) } else { Ok(Cow::Borrowed(raw)) }
    }

    fn number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, JsonError> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let digits = |b: u8| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.bytes().position(|b| !digits(b)).unwrap_or(rest.len());
        let number = rest.get(..length).unwrap_or_default();
        self.at += length;
        if let Ok(value) = number.parse::<u64>() {
            visitor.visit_u64(value)
        } else if let Ok(value) = number.parse::<i64>() {
            visitor.visit_i64(value)
        } else {
            visitor.visit_f64(number.parse().map_err(|_| syntax())?)
        }
    }

    fn object<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, JsonError> {
        self.expect(b'{')?;
        let mut members = Members { reader: self, first: true, key: Cow::Borrowed("") };
        let value = visitor.visit_map(&mut members)?;
        if members.next()? {
            return Err(JsonError::invalid_length(0, &"fewer members"));
        }
        self.expect(b'}')?;
        Ok(value)
    }

    fn array<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, JsonError> {
        self.expect(b'[')?;
        let mut elements = Elements { reader: self, index: 0 };
        let value = visitor.visit_seq(&mut elements)?;
        if elements.next()? {
            return Err(JsonError::invalid_length(0, &"fewer elements"));
        }
        self.expect(b']')?;
        Ok(value)
    }
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = JsonError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.peek()? {
            b'{' => self.object(visitor),
            b'[' => self.array(visitor),
            b'"' => match self.string()? {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            b't' => {
                self.at += "true".len();
                visitor.visit_bool(true)
            }
            b'f' => {
                self.at += "false".len();
                visitor.visit_bool(false)
            }
            b'n' => {
                self.at += "null".len();
                visitor.visit_unit()
            }
            _ => self.number(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        if self.peek()? == b'n' { self.deserialize_any(visitor) } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        if self.printable && name == TEXT && self.peek()? == b'"' {
            let begin = self.at;
            if !is_printable(&self.string()?) {
                return Err(JsonError::custom("text with characters that cannot be seen"));
            }
            self.at = begin;
        }
        visitor.visit_newtype_struct(self)
    }

    /// The reason for this reader: a struct has names, so an array is not one.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        match self.peek()? {
            b'{' => self.object(visitor),
            _ => Err(JsonError::invalid_type(Unexpected::Other("another kind"), &"an object")),
        }
    }

    /// Only a string: what kind a thing is, is said by one word.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        match self.peek()? {
            b'"' => visitor.visit_enum(Word(self.string()?)),
            _ => Err(JsonError::unknown_variant("", variants)),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct Members<'a, 'de> {
    reader: &'a mut Reader<'de>,
    first: bool,
    key: Cow<'de, str>,
}

impl Members<'_, '_> {
    /// Whether another member follows; steps over the comma before it.
    fn next(&mut self) -> Result<bool, JsonError> {
        match self.reader.peek()? {
            b'}' => Ok(false),
            b',' if !self.first => {
                self.reader.at += 1;
                Ok(true)
            }
            _ => Ok(self.first),
        }
    }
}

impl<'de> MapAccess<'de> for &mut Members<'_, 'de> {
    type Error = JsonError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, JsonError> {
        if !self.next()? {
            return Ok(None);
        }
        self.first = false;
        self.key = self.reader.string()?;
        let key = seed.deserialize(Key(self.key.clone())).map_err(|e| e.in_field(&self.key))?;
        self.reader.expect(b':')?;
        Ok(Some(key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, JsonError> {
        seed.deserialize(&mut *self.reader).map_err(|e| e.in_field(&self.key))
    }
}

struct Elements<'a, 'de> {
    reader: &'a mut Reader<'de>,
    index: usize,
}

impl Elements<'_, '_> {
    /// Whether another element follows; steps over the comma before it.
    fn next(&mut self) -> Result<bool, JsonError> {
        match self.reader.peek()? {
            b']' => Ok(false),
            b',' if self.index > 0 => {
                self.reader.at += 1;
                Ok(true)
            }
            _ => Ok(self.index == 0),
        }
    }
}

impl<'de> SeqAccess<'de> for &mut Elements<'_, 'de> {
    type Error = JsonError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, JsonError> {
        if !self.next()? {
            return Ok(None);
        }
        let index = self.index;
        self.index += 1;
        seed.deserialize(&mut *self.reader).map(Some).map_err(|e| e.at_index(index))
    }
}

/// The key of an object, which may become any type made of text.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = JsonError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        visitor.visit_enum(Word(self.0))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq
        tuple tuple_struct map struct identifier ignored_any
    }
}

/// The word that names a variant without content.
struct Word<'de>(Cow<'de, str>);

impl<'de> EnumAccess<'de> for Word<'de> {
    type Error = JsonError;
    type Variant = NoContent;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, NoContent), JsonError> {
        let value = match self.0 {
            Cow::Borrowed(text) => seed.deserialize(BorrowedStrDeserializer::new(text))?,
            Cow::Owned(text) => {
                let text: StringDeserializer<JsonError> = text.into_deserializer();
                seed.deserialize(text)?
            }
        };
        Ok((value, NoContent))
    }
}

struct NoContent;

impl<'de> VariantAccess<'de> for NoContent {
    type Error = JsonError;

    fn unit_variant(self) -> Result<(), JsonError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, JsonError> {
        Err(no_content())
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, JsonError> {
        Err(no_content())
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, JsonError> {
        Err(no_content())
    }
}

fn no_content() -> JsonError {
    de::Error::invalid_type(Unexpected::UnitVariant, &"a kind without content")
}

fn syntax() -> JsonError {
    JsonError::new(JsonErrorKind::Syntax)
}
