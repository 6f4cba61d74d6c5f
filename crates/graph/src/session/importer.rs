//! What makes a model of a file.

use std::path::Path;

use millstream_core::inventory;

use crate::model::Body;
use crate::model_info::{ModelInfo, OperatorSet};
use crate::{Error, Result};

/// A kind of model file. A crate that reads one submits an entry with `inventory`, and [`Session::open`](crate::Session::open)
/// finds it.
#[derive(Clone, Copy, Debug)]
pub struct Importer {
    /// The extension of such files, without the dot and in lower case.
    pub extension: &'static str,
    /// Reads a file.
    pub read: fn(&Path) -> Result<Body>,
    /// Reads what a file says of itself, also if it cannot be run.
    pub describe: fn(&Path) -> Result<ModelInfo>,
    /// The operators that it knows.
    pub operators: fn() -> Vec<OperatorSet>,
}

inventory::collect!(Importer);

impl Importer {
    /// All kinds of model files.
    pub fn all() -> impl Iterator<Item = Self> {
        inventory::iter::<Importer>.into_iter().copied()
    }

    /// The importer that the extension of a file names.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let extension = extension.map(str::to_ascii_lowercase).unwrap_or_default();
        let known = || inventory::iter::<Importer>.into_iter();
        if let Some(importer) = known().find(|importer| importer.extension == extension) {
            return Ok(*importer);
        }
        if let Err(error) = std::fs::metadata(path) {
            return Err(Error::read(path, error));
        }
        let mut names: Vec<&str> = known().map(|importer| importer.extension).collect();
        names.sort_unstable();
        let reason = format!("its extension is none of those that are read: {}", names.join(", "));
        Err(Error::Format { path: path.display().to_string(), reason })
    }
}
