//! A model in one or several files.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use serde_core::de::Deserialize;

use super::file::MappedFile;
use super::header::Entry;
use super::header::shown;
use super::index::Index;
use crate::{Error, Result};

const LONGEST_INDEX: u64 = 64 << 20;

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
        let read = |error| Error::read(path, error);
        let mut text = Vec::new();
        let file = std::fs::File::open(path).map_err(read)?;
        file.take(LONGEST_INDEX + 1).read_to_end(&mut text).map_err(read)?;
        if text.len() as u64 > LONGEST_INDEX {
            return Err(format(format!("it has more than {LONGEST_INDEX} bytes")));
        }
        let mut parser = serde_json::Deserializer::from_slice(&text);
        let index = Index::deserialize(&mut parser)
            .and_then(|index| parser.end().map(|()| index))
            .map_err(|error| format(error.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let open = |file: &String| MappedFile::open(&folder.join(file));
        let files = index.files.iter().map(open).collect::<Result<Vec<_>>>()?;
        for (name, &number) in &index.places {
            if !files[number].entries().contains_key(name) {
                let (name, file) = (shown(name), &index.files[number]);
                return Err(format(format!("{name:?} is not in {file}")));
            }
        }
        Ok(Self { files, places: index.places })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    pub fn find(&self, name: &str) -> Option<(&MappedFile, &Entry)> {
        let file = &self.files[*self.places.get(name)?];
        Some((file, file.entries().get(name)?))
    }
}
