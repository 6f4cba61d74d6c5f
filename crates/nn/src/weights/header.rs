//! The header of a `.safetensors` file: JSON with the type, shape and place of every tensor.
//!
//! Nothing in it is believed: sizes are checked against each other and against the file.

use std::collections::HashMap;
use std::ops::Range;

use millstream_core::{DType, MAX_RANK};
use serde_json::{Map, Value};

/// Headers of the largest models have a few megabytes.
const LONGEST: u64 = 64 << 20;
const MOST_TENSORS: usize = 1 << 18;
/// The length of the header comes first.
const PREFIX: usize = 8;

/// A tensor of a file.
#[derive(Debug, PartialEq)]
pub struct Entry {
    /// The type, or its name where there is none for it.
    pub dtype: Result<DType, String>,
    pub shape: Vec<usize>,
    /// Where in the file its bytes are.
    pub place: Range<usize>,
}

pub const TYPES: [(&str, DType); 9] = [
    ("F32", DType::F32),
    ("F16", DType::F16),
    ("BF16", DType::BF16),
    ("F64", DType::F64),
    ("I8", DType::I8),
    ("U8", DType::U8),
    ("I32", DType::I32),
    ("I64", DType::I64),
    ("BOOL", DType::Bool),
];

/// The tensors of a file, all of which lie inside it.
pub fn read(bytes: &[u8]) -> Result<HashMap<String, Entry>, String> {
    let (length, rest) = bytes.split_first_chunk::<PREFIX>().ok_or("it has no header")?;
    let length = u64::from_le_bytes(*length);
    if length > LONGEST {
        return Err(format!("a header of {length} bytes, above {LONGEST}"));
    }
    let length = length as usize;
    let (header, data) = rest.split_at_checked(length).ok_or("it ends within its header")?;
    let header: Map<String, Value> =
        serde_json::from_slice(header).map_err(|error| format!("its header: {error}"))?;
    if header.len() > MOST_TENSORS {
        return Err(format!("{} tensors, above {MOST_TENSORS}", header.len()));
    }
    let start = PREFIX + length;
    let mut entries = HashMap::with_capacity(header.len());
    for (name, value) in header.into_iter().filter(|(name, _)| name != "__metadata__") {
        let entry = entry(&value, data.len(), start).ok_or_else(|| {
            let shown: String = value.to_string().chars().take(200).collect();
            format!("tensor {name:?} is described by {shown}")
        })?;
        entries.insert(name, entry);
    }
    check_cover(&entries, start..bytes.len())?;
    Ok(entries)
}

fn entry(value: &Value, data: usize, start: usize) -> Option<Entry> {
    let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
    let name = value.get("dtype")?.as_str()?;
    let shape = value.get("shape")?.as_array()?;
    let shape: Vec<usize> = shape.iter().map(number).collect::<Option<_>>()?;
    let [from, to] = value.get("data_offsets")?.as_array()?.as_slice() else { return None };
    let (from, to) = (number(from)?, number(to)?);
    if from > to || to > data || shape.len() > MAX_RANK {
        return None;
    }
    let elements = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))?;
    let dtype = match TYPES.iter().find(|(known, _)| *known == name) {
        Some(&(_, dtype)) if elements.checked_mul(dtype.size()) == Some(to - from) => Ok(dtype),
        Some(_) => return None,
        None => Err(name.chars().take(20).collect()),
    };
    Some(Entry { dtype, shape, place: start + from..start + to })
}

/// Whether the tensors lie one after another without gaps, as the format has it. Two that share bytes, or
/// bytes that belong to none, mean that the file is not what it seems.
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
