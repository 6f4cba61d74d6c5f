//! From a file to a body.

use std::path::Path;

use bytes::Bytes;
use millstream_graph::Body;
use prost::Message;

use crate::external::{ExternalFiles, map_file};
use crate::model::Model;
use crate::proto::ModelProto;
use crate::{Error, Result};

/// Reads a model from a file. Weights stay in the file, or in others beside it, until they are needed; none of these files
/// may change while the model is used.
///
/// # Errors
///
/// A file that cannot be read or is no ONNX model; [`Error::Operators`] with all operators that are not supported;
/// [`Error::Node`] for a node that is not as its operator wants it; data in files outside of the model's folder (where the
/// path is a link: the folder of the link, or of the file).
pub fn open(path: impl AsRef<Path>) -> Result<Body> {
    let path = path.as_ref();
    let proto = decode_file(path)?;
    let model = Model::new(&proto, ExternalFiles::of(path));
    model.and_then(|model| model.import()).map_err(|error| in_file(path, error))
}

/// An error with the file that it is about.
pub(crate) fn in_file(path: &Path, error: Error) -> Error {
    match error {
        Error::Format { path: within, reason } => {
            let within = if within == "model" { String::new() } else { format!("{within}: ") };
            Error::Format { path: path.display().to_string(), reason: format!("{within}{reason}") }
        }
        other => other,
    }
}

/// What stands in a file.
pub(crate) fn decode_file(path: &Path) -> Result<ModelProto> {
    decode(map_file(path)?).map_err(|error| in_file(path, error))
}

/// Reads a model from memory. It cannot have weights in other files.
///
/// # Errors
///
/// As for [`open`].
pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Body> {
    Model::new(&decode(bytes.into())?, ExternalFiles::none())?.import()
}

fn decode(bytes: Bytes) -> Result<ModelProto> {
    ModelProto::decode(bytes).map_err(|error| Error::Format {
        path: "model".into(),
        reason: format!("it is no ONNX model: {error}"),
    })
}

millstream_core::inventory::submit! {
    millstream_graph::Importer {
        extension: "onnx",
        read: |path| open(path),
        describe: |path| crate::describe(path),
        operators: crate::operators,
    }
}
