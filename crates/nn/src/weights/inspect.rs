//! The contents of a weights file, without loading it.

use std::path::Path;

use super::shards::Shards;
use crate::Result;

/// A tensor of a weights file; see [`inspect`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// The name.
    pub name: String,
    /// The name of the element type. If there is no such type here, the file's name for it.
    pub dtype: String,
    /// The shape.
    pub shape: Vec<usize>,
    /// Its size in the file, in bytes.
    pub bytes: usize,
}

/// The tensors of a `.safetensors` file, an index or a folder, as [`Weights::open`](crate::Weights::open) takes them,
/// sorted by name. Only headers are read, and no device is needed.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::inspect;
///
/// # let path = std::env::temp_dir().join(format!("inspect-{}.safetensors", std::process::id()));
/// # let device = millstream::Device::cpu()?;
/// # let scale = millstream::Tensor::new(&[1.0f32, 2.0], &device)?;
/// # millstream::nn::save(&path, [("scale", &scale)])?;
/// let tensors = inspect(&path)?;
/// assert_eq!((tensors[0].name.as_str(), tensors[0].dtype.as_str()), ("scale", "f32"));
/// assert_eq!((&tensors[0].shape[..], tensors[0].bytes), (&[2][..], 8));
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// # Blocks when
///
/// Always: files are read.
///
/// # Errors
///
/// As for [`Weights::open`](crate::Weights::open).
pub fn inspect(path: impl AsRef<Path>) -> Result<Vec<TensorInfo>> {
    let shards = Shards::open(path.as_ref())?;
    let info = |name: &str| {
        let (_, entry) = shards.find(name)?;
        let dtype = match &entry.dtype {
            Ok(dtype) => dtype.to_string(),
            Err(unknown) => unknown.clone(),
        };
        let (name, shape) = (name.to_owned(), entry.shape.clone());
        Some(TensorInfo { name, dtype, shape, bytes: entry.place.len() })
    };
    let mut tensors: Vec<TensorInfo> = shards.names().filter_map(info).collect();
    tensors.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(tensors)
}
