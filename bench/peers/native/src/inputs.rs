//! The inputs of a model, as `models.py` writes them.

use std::ffi::CString;
use std::path::Path;

use crate::Result;

/// An element type that the models take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    F32,
    I32,
    I64,
}

/// A tensor in host memory.
#[derive(Clone)]
pub struct Input {
    pub name: CString,
    pub element: Element,
    pub shape: Vec<i64>,
    /// The contents; of 8 bytes each, so that every element is aligned.
    data: Vec<u64>,
    pub bytes: usize,
}

impl Input {
    /// Where the contents begin.
    pub fn data(&mut self) -> *mut std::ffi::c_void {
        self.data.as_mut_ptr().cast()
    }
}

/// Reads `inputs.json`, a list of objects with name, dtype and shape, and the contents of each from `0.bin`, `1.bin`, ….
pub fn read(folder: &Path) -> Result<Vec<Input>> {
    let list: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("inputs.json"))?)?;
    let list = list.as_array().ok_or("inputs.json is no list")?;
    let one = |(index, entry): (usize, &serde_json::Value)| {
        let text = |key: &str| entry[key].as_str().ok_or(format!("no {key} in inputs.json"));
        let (element, size) = match text("dtype")? {
            "float32" => (Element::F32, 4),
            "int32" => (Element::I32, 4),
            "int64" => (Element::I64, 8),
            other => return Err(format!("inputs of {other} are not known here").into()),
        };
        let shape = entry["shape"].as_array().ok_or("no shape in inputs.json")?;
        let shape: Vec<i64> = shape.iter().filter_map(serde_json::Value::as_i64).collect();
        let raw = std::fs::read(folder.join(format!("{index}.bin")))?;
        let elements: i64 = shape.iter().product();
        if raw.len() != elements as usize * size {
            return Err(format!("{index}.bin has {} bytes for {shape:?}", raw.len()).into());
        }
        let words = raw.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        let name = CString::new(text("name")?)?;
        Ok(Input { name, element, shape, data: words.collect(), bytes: raw.len() })
    };
    list.iter().enumerate().map(one).collect()
}
