//! A model in one or several files.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::file::MappedFile;
use super::header::Entry;
use crate::{Error, Result};

const LONGEST_INDEX: u64 = 64 << 20;
const MOST_FILES: usize = 4096;

#[derive(Debug)]
pub struct Shards {
    files: Vec<MappedFile>,
    /// The file of each tensor.
    places: HashMap<String, usize>,
}

impl Shards {
    pub fn open(path: &Path) -> Result<Self> {
        if path.is_dir() {
            let index = path.join("model.safetensors.index.json");
            let single = path.join("model.safetensors");
            return if index.exists() { Self::indexed(&index) } else { Self::single(&single) };
        }
        match path.extension() {
            Some(extension) if extension == "json" => Self::indexed(path),
            _ => Self::single(path),
        }
    }

    fn single(path: &Path) -> Result<Self> {
        let file = MappedFile::open(path)?;
        let places = file.entries().keys().map(|name| (name.clone(), 0)).collect();
        Ok(Self { files: vec![file], places })
    }

    fn indexed(path: &Path) -> Result<Self> {
        let format = |reason: String| Error::Format { path: path.display().to_string(), reason };
        let read = |error: std::io::Error| Error::Read {
            path: path.display().to_string(),
            message: error.to_string(),
        };
        let mut text = Vec::new();
        let file = std::fs::File::open(path).map_err(read)?;
        file.take(LONGEST_INDEX + 1).read_to_end(&mut text).map_err(read)?;
        if text.len() as u64 > LONGEST_INDEX {
            return Err(format(format!("it has more than {LONGEST_INDEX} bytes")));
        }
        let index: Value =
            serde_json::from_slice(&text).map_err(|error| format(error.to_string()))?;
        let map = index.get("weight_map").and_then(Value::as_object);
        let map = map.ok_or_else(|| format("it has no weight_map".into()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let (mut files, mut numbers) = (Vec::new(), HashMap::new());
        let mut places = HashMap::with_capacity(map.len());
        for (name, file) in map {
            let file = file.as_str().filter(|file| is_plain(file));
            let file = file.ok_or_else(|| format(format!("{name:?} is in no file beside it")))?;
            let number = match numbers.get(file) {
                Some(&number) => number,
                None if files.len() == MOST_FILES => {
                    return Err(format(format!("more than {MOST_FILES} files")));
                }
                None => {
                    files.push(MappedFile::open(&folder.join(file))?);
                    numbers.insert(file.to_owned(), files.len() - 1);
                    files.len() - 1
                }
            };
            if !files[number].entries().contains_key(name) {
                return Err(format(format!("{name:?} is not in {file}")));
            }
            places.insert(name.clone(), number);
        }
        Ok(Self { files, places })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    pub fn find(&self, name: &str) -> Option<(&MappedFile, &Entry)> {
        let file = &self.files[*self.places.get(name)?];
        Some((file, file.entries().get(name)?))
    }
}

/// Whether it names a file of the same folder: an index must not lead elsewhere.
fn is_plain(file: &str) -> bool {
    Path::new(file).file_name().is_some_and(|name| name == file) && !file.contains('\\')
}
