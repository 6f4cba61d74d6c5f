//! The index of a model in several files: JSON with the file of every tensor.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use serde_core::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::header::{MAX_TENSORS, shown};

const MAX_FILES: usize = 4096;

/// The file of each tensor. Nothing else of an index is kept while it is read, and the numbers of files and tensors
/// are bounded on the way.
#[derive(Default)]
pub struct Index {
    /// Files in the folder of the index.
    pub files: Vec<String>,
    /// The index in `files` of each tensor's file.
    pub places: HashMap<String, usize>,
}

impl<'de> Deserialize<'de> for Index {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Index;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a weight_map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Index, A::Error> {
                let mut found = None;
                while let Some(key) = fields.next_key::<Cow<str>>()? {
                    match &*key {
                        "weight_map" => found = Some(fields.next_value::<WeightMap>()?.0),
                        _ => drop(fields.next_value::<IgnoredAny>()?),
                    }
                }
                found.ok_or_else(|| A::Error::custom("it has no weight_map, so it is not the index of a model: open its .safetensors file or its folder"))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

struct WeightMap(Index);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;

        impl<'de> Visitor<'de> for Names {
            type Value = WeightMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the file of every tensor")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
                let (mut index, mut numbers) = (Index::default(), HashMap::new());
                while let Some((name, file)) = map.next_entry::<String, Cow<str>>()? {
                    if !is_plain(&file) {
                        let name = shown(&name);
                        return Err(A::Error::custom(format!("{name:?} is in no file beside it")));
                    }
                    let number = match numbers.get(&*file) {
                        Some(&number) => number,
                        None if index.files.len() == MAX_FILES => {
                            return Err(A::Error::custom(format!("more than {MAX_FILES} files")));
                        }
                        None => {
                            numbers.insert(file.clone().into_owned(), index.files.len());
                            index.files.push(file.into_owned());
                            index.files.len() - 1
                        }
                    };
                    index.places.insert(name, number);
                    if index.places.len() > MAX_TENSORS {
                        return Err(A::Error::custom(format!("more than {MAX_TENSORS} tensors")));
                    }
                }
                Ok(WeightMap(index))
            }
        }

        deserializer.deserialize_map(Names)
    }
}

/// Whether it is a file of the same folder: an index must not lead elsewhere.
fn is_plain(file: &str) -> bool {
    Path::new(file).file_name().is_some_and(|name| name == file) && !file.contains('\\')
}
