//! The header of a `.safetensors` file: JSON with the type, shape and position of every tensor.
//!
//! Everything in it is checked: sizes must fit each other and the file.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map;
use std::fmt;
use std::ops::Range;

use millstream_core::{DType, MAX_RANK};
use serde_core::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

/// Headers of the largest models have a few megabytes.
const LONGEST: u64 = 64 << 20;
pub const MAX_TENSORS: usize = 1 << 18;
/// The advice about a file that ends too early.
const CUT: &str = "the file was cut, fetch or copy it again";
/// The length of the header comes first.
const PREFIX: usize = 8;

/// A tensor of a file.
#[derive(Debug, PartialEq)]
pub struct Entry {
    /// The type; if there is no such type here, its name.
    pub dtype: Result<DType, String>,
    pub shape: Vec<usize>,
    /// The position of its bytes in the file.
    pub place: Range<usize>,
}

pub const TYPES: [(&str, DType); 19] = [
    ("F32", DType::F32),
    ("F16", DType::F16),
    ("BF16", DType::BF16),
    ("F64", DType::F64),
    ("I8", DType::I8),
    ("U8", DType::U8),
    ("I32", DType::I32),
    ("I64", DType::I64),
    ("BOOL", DType::Bool),
    ("I16", DType::I16),
    ("U16", DType::U16),
    ("U32", DType::U32),
    ("U64", DType::U64),
    ("F8_E4M3", DType::F8E4M3FN),
    ("F8_E5M2", DType::F8E5M2),
    ("F8_E4M3FNUZ", DType::F8E4M3FNUZ),
    ("F8_E5M2FNUZ", DType::F8E5M2FNUZ),
    ("F8_E8M0", DType::F8E8M0),
    ("F4", DType::F4E2M1),
];

/// The tensors of a file. All of them lie inside it.
pub fn read(bytes: &[u8]) -> Result<HashMap<String, Entry>, String> {
    let Some((length, rest)) = bytes.split_first_chunk::<PREFIX>() else {
        return Err(format!("it has {} bytes, too few for a header", bytes.len()));
    };
    let length = u64::from_le_bytes(*length);
    if length > LONGEST {
        return Err(format!(
            "a header of {length} bytes, above {LONGEST}: it is no safetensors file"
        ));
    }
    let length = length as usize;
    let Some((header, data)) = rest.split_at_checked(length) else {
        let there = rest.len();
        return Err(format!(
            "it ends within its header, {there} of {length} bytes are there: {CUT}"
        ));
    };
    let start = PREFIX + length;
    let mut parser = serde_json::Deserializer::from_slice(header);
    let missing = Cell::new(0);
    let entries = Tensors { data: data.len(), start, missing: &missing }
        .deserialize(&mut parser)
        .and_then(|entries| parser.end().map(|()| entries))
        .map_err(|error| match missing.get() {
            0 => format!("its header: {error}"),
            missing => format!("at least {missing} bytes are missing at its end: {CUT}"),
        })?;
    check_cover(&entries, start..bytes.len())?;
    Ok(entries)
}

/// A name as messages show it.
pub fn shown(name: &str) -> String {
    name.chars().take(200).collect()
}

/// Reads the header's entries one by one and keeps only tensors that are completely described. So memory is bounded:
/// at most eight times the bytes that describe them.
struct Tensors<'a> {
    /// The number of bytes after the header, and where they begin.
    data: usize,
    start: usize,
    /// How many bytes the file is too short for its tensors.
    missing: &'a Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for Tensors<'_> {
    type Value = HashMap<String, Entry>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Tensors<'_> {
    type Value = HashMap<String, Entry>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut tensors: A) -> Result<Self::Value, A::Error> {
        let mut entries = HashMap::new();
        while let Some(name) = tensors.next_key::<String>()? {
            if name == "__metadata__" {
                tensors.next_value::<IgnoredAny>()?;
                continue;
            }
            if entries.len() == MAX_TENSORS {
                return Err(A::Error::custom(format!("more than {MAX_TENSORS} tensors")));
            }
            let described: Described = tensors.next_value()?;
            let Some(entry) = described.entry(self.data, self.start) else {
                // Valid except for the length of the file.
                if let Some(whole) = described.entry(usize::MAX, 0) {
                    self.missing.set(whole.place.end.saturating_sub(self.data));
                }
                let error = format!("tensor {:?} has {described:?}", shown(&name));
                return Err(A::Error::custom(error));
            };
            match entries.entry(name) {
                hash_map::Entry::Vacant(place) => place.insert(entry),
                hash_map::Entry::Occupied(there) => {
                    let name = shown(there.key());
                    return Err(A::Error::custom(format!("two tensors are named {name:?}")));
                }
            };
        }
        Ok(entries)
    }
}

/// A tensor as the header describes it.
#[derive(Debug, Default)]
struct Described {
    /// The name of the type, or its beginning if it is too long for any type.
    dtype: Option<String>,
    shape: Option<Numbers>,
    data_offsets: Option<Numbers>,
}

impl Described {
    fn entry(&self, data: usize, start: usize) -> Option<Entry> {
        let (name, shape) = (self.dtype.as_deref()?, self.shape.as_ref()?.all()?);
        let &[from, to] = self.data_offsets.as_ref()?.all()? else { return None };
        if from > to || to > data {
            return None;
        }
        let elements = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))?;
        let dtype = match TYPES.iter().find(|(known, _)| *known == name) {
            Some(&(_, dtype)) if dtype.bytes(elements) == Some(to - from) => Ok(dtype),
            Some(_) => return None,
            None => Err(name.to_owned()),
        };
        Some(Entry { dtype, shape: shape.to_vec(), place: start + from..start + to })
    }
}

impl<'de> Deserialize<'de> for Described {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Described;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the type, shape and place of a tensor")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Described, A::Error> {
                let mut described = Described::default();
                while let Some(key) = fields.next_key::<Cow<str>>()? {
                    match &*key {
                        "dtype" => {
                            let name = fields.next_value::<Cow<str>>()?;
                            described.dtype = Some(name.chars().take(20).collect());
                        }
                        "shape" => described.shape = Some(fields.next_value()?),
                        "data_offsets" => described.data_offsets = Some(fields.next_value()?),
                        _ => drop(fields.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(described)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// As many numbers as a shape may have, and one more to notice that there were too many.
#[derive(Debug, Default)]
struct Numbers(smallvec::SmallVec<[usize; MAX_RANK + 1]>);

impl Numbers {
    fn all(&self) -> Option<&[usize]> {
        (self.0.len() <= MAX_RANK).then_some(&self.0)
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Numbers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of sizes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Numbers, A::Error> {
                let mut list = Numbers::default();
                while let Some(number) = numbers.next_element::<usize>()? {
                    if list.0.len() <= MAX_RANK {
                        list.0.push(number);
                    }
                }
                Ok(list)
            }
        }

        deserializer.deserialize_seq(List)
    }
}

/// Checks that the tensors lie one after the other without gaps, as the format demands. If two share bytes, or bytes
/// belong to none, the file is broken.
fn check_cover(entries: &HashMap<String, Entry>, data: Range<usize>) -> Result<(), String> {
    let mut places: Vec<&Range<usize>> = entries.values().map(|entry| &entry.place).collect();
    places.sort_unstable_by_key(|place| (place.start, place.end));
    let mut end = data.start;
    for place in places {
        if place.start != end {
            return Err(format!("byte {end} of it belongs to no tensor or to two"));
        }
        end = place.end;
    }
    if end != data.end {
        return Err(format!("it has {} bytes, {end} of which are used", data.end));
    }
    Ok(())
}
