//! Tensors in files beside the model.
//!
//! Such a file must lie in the model's folder: a model from elsewhere must not read what its author chooses. Caches keep a
//! model as a link, with the file itself among others elsewhere; then it may lie in the folder of either.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use millstream_core::{DType, Layout};

use crate::proto::TensorProto;
use crate::tensor::little_endian;
use crate::{Error, Result};

/// The files of a model's folder, each mapped once.
#[derive(Debug)]
pub(crate) struct ExternalFiles {
    model: Option<PathBuf>,
    /// Taken while a model is loaded.
    mapped: Mutex<HashMap<String, Bytes>>,
}

impl ExternalFiles {
    /// None: a model that is not from a file.
    pub fn none() -> Self {
        Self { model: None, mapped: Mutex::new(HashMap::new()) }
    }

    /// Those beside a model's file.
    pub fn of(model: &Path) -> Self {
        Self { model: Some(model.to_owned()), mapped: Mutex::new(HashMap::new()) }
    }

    /// The bytes of a tensor.
    pub fn read(&self, tensor: &TensorProto, dtype: DType, shape: &[usize]) -> Result<Bytes> {
        let name = tensor.name.as_deref().unwrap_or("");
        let invalid = |reason: String| Error::Format { path: format!("tensor {name:?}"), reason };
        let (mut location, mut offset, mut length) = (None, 0usize, None);
        for entry in &tensor.external_data {
            let value = entry.value.as_deref().unwrap_or("");
            let number = || {
                value.parse::<usize>().map_err(|_| invalid(format!("{value:?} is not a number")))
            };
            match entry.key.as_deref() {
                Some("location") => location = Some(value),
                // What is left empty is not said.
                Some("offset" | "length") if value.is_empty() => {}
                Some("offset") => offset = number()?,
                Some("length") => length = Some(number()?),
                // Nobody checks checksums, and folders are not the file's to say.
                Some("checksum" | "basepath") => {}
                // Where the file has the same weights as onnxruntime arranges them for its kernels.
                Some(key) if key.starts_with("prepacked") => {}
                other => {
                    return Err(invalid(format!("external data with the unknown key {other:?}")));
                }
            }
        }
        let Some(location) = location.filter(|location| !location.is_empty()) else {
            return Err(invalid("external data without a location".into()));
        };
        let needed = Layout::contiguous(dtype, shape)
            .map_err(|error| invalid(error.to_string()))?
            .dense_bytes();
        if length.is_some_and(|length| length != needed) {
            let reason = format!("{length:?} bytes of external data, {needed} are needed");
            return Err(invalid(reason));
        }
        let file = self.map(location).map_err(|reason| match reason {
            Problem::Refused(reason) => invalid(reason),
            Problem::Read(path, error) => Error::read(path, error),
        })?;
        let end = offset.checked_add(needed).filter(|end| *end <= file.len());
        let Some(end) = end else {
            let reason = format!(
                "{needed} bytes from {offset} on of {location:?}, which has {} bytes",
                file.len()
            );
            return Err(invalid(reason));
        };
        Ok(little_endian(file.slice(offset..end), dtype))
    }

    fn map(&self, location: &str) -> std::result::Result<Bytes, Problem> {
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = mapped.get(location) {
            return Ok(known.clone());
        }
        let Some(model) = &self.model else {
            return Err(Problem::Refused(
                "external data of a model that is not from a file: open it by its path".into(),
            ));
        };
        let bytes = map_beside(model, location)?;
        mapped.insert(location.to_owned(), bytes.clone());
        Ok(bytes)
    }
}

enum Problem {
    Refused(String),
    Read(PathBuf, std::io::Error),
}

/// Maps a file below a model's folder. Nothing outside it is opened, whatever the location says and wherever links lead.
fn map_beside(model: &Path, location: &str) -> std::result::Result<Bytes, Problem> {
    let refused = |what: &str| {
        Problem::Refused(format!(
            "external data at {location:?}: {what}; it must lie in the model's folder"
        ))
    };
    let relative = Path::new(location);
    let mut level = 0usize;
    for component in relative.components() {
        match component {
            Component::Normal(_) => level += 1,
            Component::CurDir => {}
            Component::ParentDir => {
                level = level.checked_sub(1).ok_or_else(|| refused("the path leads out"))?;
            }
            Component::RootDir | Component::Prefix(_) => {
                return Err(refused("the path is absolute"));
            }
        }
    }
    let folders = folders(model).map_err(|error| Problem::Read(model.to_owned(), error))?;
    let path = folders[0].join(relative);
    let read = |error| Problem::Read(path.clone(), error);
    let mut target = path.canonicalize();
    for other in &folders[1..] {
        // What is beside the link comes first, whatever it is.
        if target.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            target = other.join(relative).canonicalize().or(target);
        }
    }
    let target = target.map_err(read)?;
    if !folders.iter().any(|folder| target.starts_with(folder)) {
        return Err(refused("a link leads out"));
    }
    // What was checked is what is opened: the path without links, and no link at its end. A pipe is not waited for.
    let file = open_regular(&target).map_err(read)?;
    let kind = file.metadata().map_err(read)?;
    if !kind.is_file() {
        return Err(refused("it is not a regular file"));
    }
    millstream_graph::map_file(&file).map_err(read)
}

/// The folders in which a model's files may lie, without links: that of its path, and if a link is there that of the file.
fn folders(model: &Path) -> std::io::Result<Vec<PathBuf>> {
    let named = model.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut folders = vec![named.unwrap_or(Path::new(".")).canonicalize()?];
    if let Ok(file) = model.canonicalize() {
        folders.extend(file.parent().map(Path::to_owned));
    }
    folders.dedup();
    Ok(folders)
}

#[cfg(unix)]
fn open_regular(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    // Numbers of Linux and of Apple's systems, where they differ.
    let flags = if cfg!(target_vendor = "apple") { 0x0100 | 0x0004 } else { 0o400000 | 0o4000 };
    std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

#[cfg(not(unix))]
fn open_regular(path: &Path) -> std::io::Result<std::fs::File> {
    std::fs::File::open(path)
}

/// Maps a whole file.
pub(crate) fn map_file(path: &Path) -> Result<Bytes> {
    let read = |error| Error::read(path, error);
    // Opening a pipe would wait for whoever writes to it.
    if !std::fs::metadata(path).map_err(read)?.is_file() {
        let reason = "it is not a regular file".into();
        return Err(Error::Format { path: path.display().to_string(), reason });
    }
    let file = std::fs::File::open(path).map_err(read)?;
    millstream_graph::map_file(&file).map_err(read)
}

#[cfg(all(test, unix))]
mod tests;
