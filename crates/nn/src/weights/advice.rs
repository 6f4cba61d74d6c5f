//! Advice about files that [`Weights::open`](super::Weights::open) does not take.

use std::path::Path;

use millstream_core::Cause;

use crate::{Error, Result};

/// File extensions. A path with one of these is not the name of a model.
const FILES: [&str; 8] = ["safetensors", "json", "bin", "pt", "pth", "gguf", "onnx", "npz"];
const PICKLE: &str = "it is a PyTorch file of pickles, which are not read since they can run code: save it from \
                      Python with safetensors.torch.save_file(torch.load(PATH, weights_only=True), \
                      \"model.safetensors\")";

/// Advice about a file of another format, which is recognized by its first bytes.
pub fn foreign(path: &Path, bytes: &[u8]) -> Option<&'static str> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    // PyTorch's older files are a bare pickle, of protocol 2 or later.
    let pickle = matches!(bytes, [0x80, 2..=5, ..]);
    Some(match bytes {
        _ if bytes.starts_with(b"PK\x03\x04") && extension == "npz" => {
            "it is a NumPy archive: save its arrays from Python with safetensors.numpy.save_file"
        }
        _ if bytes.starts_with(b"PK\x03\x04") || pickle => PICKLE,
        _ if bytes.starts_with(b"\x93NUMPY") => {
            "it is a NumPy array: read it with Tensor::read_npy"
        }
        _ if bytes.starts_with(b"GGUF") => {
            "it is a GGUF file, which is not read: fetch the model's safetensors files"
        }
        _ if bytes.starts_with(b"version https://git-lfs") => {
            "it is a pointer of Git LFS in place of the file: run git lfs pull"
        }
        _ if bytes.trim_ascii_start().starts_with(b"<") => {
            "it is a web page in place of the file: fetch the file itself"
        }
        _ if extension == "onnx" => {
            "it is an ONNX model, and weights are read from safetensors files"
        }
        _ => return None,
    })
}

/// The error of a path that does not exist.
pub fn nothing_at(path: &Path) -> Error {
    let shown = path.display().to_string();
    let message = match hub_name(path) {
        Some(name) => format!(
            "there is no such folder here. If it is the name of a model on a hub, fetch it first, as with \
             `hf download {shown} --local-dir {name}`, and open {name}"
        ),
        None => "there is no such file or folder".into(),
    };
    Error::Read { path: shown, source: Cause::new(message) }
}

/// The second part of `owner/model`, if a path can be that.
fn hub_name(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let (owner, name) = text.split_once('/')?;
    let plain = |part: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        part.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
            && part.bytes().all(known)
    };
    let file = path.extension().is_some_and(|ending| FILES.iter().any(|file| ending == *file));
    (plain(owner) && plain(name) && !file).then_some(name)
}

/// Checks that a path is the folder of a model.
pub fn check_folder(path: &Path) -> Result<()> {
    match path.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => {
            let message = "it is a file, but a model is opened by its folder, with config.json beside the weights";
            Err(Error::Read { path: path.display().to_string(), source: Cause::new(message) })
        }
        Err(_) => Err(nothing_at(path)),
    }
}

/// The error of a folder without weights.
pub fn no_weights_in(folder: &Path) -> Error {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten().take(1000);
    let mut names: Vec<String> =
        names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    let ends = |endings: &'static [&str]| {
        names.iter().find(|name| endings.iter().any(|ending| name.ends_with(ending)))
    };
    let none = "the folder has no model.safetensors and no model.safetensors.index.json";
    let message = if let Some(name) = ends(&[".safetensors"]) {
        format!("{none}, but {name}: open that file")
    } else if let Some(name) = ends(&[".bin", ".pt", ".pth"]) {
        format!("{none}, but {name}: {}", PICKLE.replace("it is", "that is"))
    } else {
        none.into()
    };
    Error::Read { path: folder.display().to_string(), source: Cause::new(message) }
}
