//! Writing `.safetensors` files.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::header::TYPES;
use crate::{Error, Result, Tensor};

/// Writes tensors to a `.safetensors` file, in the given order. Waits until their values are computed.
///
/// There is never a half-written file: it is written under another name and then renamed.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{load, save};
/// use millstream::{Device, Tensor};
///
/// let device = Device::cpu()?;
/// let path = std::env::temp_dir().join(format!("saved-{}.safetensors", std::process::id()));
/// save(&path, [("bias", &Tensor::new(&[1.0f32, 2.0], &device)?)])?;
/// assert_eq!(load(&path, &device)?["bias"].to_vec::<f32>()?, [1.0, 2.0]);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// # Blocks when
///
/// Always: it waits for the values and writes a file.
///
/// # Errors
///
/// An error in the computation of the values, a name that occurs twice, or a file that cannot be written.
#[doc(alias = "save_file")]
pub fn save<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
) -> Result<()> {
    let path = path.as_ref();
    let tensors: Vec<(&str, &Tensor)> = tensors.into_iter().collect();
    let header = header(&tensors)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let written = write(beside.as_ref(), &header, &tensors, path);
    if written.is_err() {
        // The rest of a failed attempt is removed. If that fails too, the first error is the one to report.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

fn header(tensors: &[(&str, &Tensor)]) -> Result<Vec<u8>> {
    let mut entries = Map::new();
    let mut end = 0usize;
    for (name, tensor) in tensors {
        let start = end;
        let Some(next) = start.checked_add(tensor.layout().dense_bytes()) else {
            return crate::error::invalid("save", "more bytes than a file can have".into());
        };
        end = next;
        let dtype = TYPES.iter().find(|(_, dtype)| *dtype == tensor.dtype());
        let entry = json!({
            "dtype": dtype.map_or("", |(name, _)| name),
            "shape": tensor.shape(),
            "data_offsets": [start, end],
        });
        let reserved = *name == "__metadata__";
        if reserved || entries.insert((*name).to_owned(), entry).is_some() {
            return crate::error::invalid("save", format!("the name {name:?} is taken"));
        }
    }
    let mut text = Value::Object(entries).to_string().into_bytes();
    // Data begin at a multiple of 8.
    text.resize(text.len().next_multiple_of(8), b' ');
    Ok(text)
}

fn write(beside: &Path, header: &[u8], tensors: &[(&str, &Tensor)], path: &Path) -> Result<()> {
    let failed = |error| Error::write(path, error);
    let mut file = BufWriter::new(File::create(beside).map_err(failed)?);
    file.write_all(&(header.len() as u64).to_le_bytes()).map_err(failed)?;
    file.write_all(header).map_err(failed)?;
    for (_, tensor) in tensors {
        let bytes = tensor.to_bytes()?;
        let bytes = crate::bytes::from_file(&bytes, tensor.dtype(), false)?;
        file.write_all(&bytes).map_err(failed)?;
    }
    file.into_inner().map_err(|error| failed(error.into_error()))?.sync_all().map_err(failed)?;
    std::fs::rename(beside, path).map_err(failed)
}
