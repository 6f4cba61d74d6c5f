//! A JSON parser whose memory is bounded.

use std::cell::Cell;
use std::fmt;

use serde_core::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Memory that values may take, as a multiple of the text's length. Files of real models need up to 10.
const MULTIPLE: usize = 16;
/// Memory that any file may take, so that small files need not be dense.
const FREE: usize = 1 << 20;

/// The most bytes that a value of each kind takes. An object's first node has room for eleven entries.
const OBJECT: usize = 640;
const ENTRY: usize = 112;
const ELEMENT: usize = 64;

/// Parses a text. The value takes at most 16 times the text's size plus a megabyte of memory.
pub fn parse(text: &[u8]) -> serde_json::Result<Value> {
    let left = Cell::new(text.len().saturating_mul(MULTIPLE).saturating_add(FREE));
    let mut parser = serde_json::Deserializer::from_slice(text);
    let value = Bounded(&left).deserialize(&mut parser)?;
    parser.end()?;
    Ok(value)
}

/// Builds a value and counts down the memory that is left.
#[derive(Clone, Copy)]
struct Bounded<'a>(&'a Cell<usize>);

impl Bounded<'_> {
    fn take<E: Error>(self, bytes: usize) -> Result<(), E> {
        let left = self.0.get().checked_sub(bytes);
        let left =
            left.ok_or_else(|| E::custom("its values take too much memory for its length"))?;
        self.0.set(left);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.take(value.len())?;
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = values.next_element_seed(self)? {
            self.take(ELEMENT)?;
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.take(key.len() + if map.is_empty() { OBJECT } else { ENTRY })?;
            map.insert(key, entries.next_value_seed(self)?);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests;
