//! NumPy's `.npy` files.

mod header;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use millstream_core::Device;

use self::header::Header;
use crate::{Error, Result, Tensor};

impl Tensor {
    /// Reads a `.npy` file.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let device = Device::cpu()?;
    /// let path = std::env::temp_dir().join(format!("read-{}.npy", std::process::id()));
    /// Tensor::new(&[[1.0f32, 2.0]], &device)?.write_npy(&path)?; // or numpy.save
    /// assert_eq!(Tensor::read_npy(&path, &device)?.to_vec2::<f32>()?, [[1.0, 2.0]]);
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// A file is read.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is not valid, an element type that is not supported, or no memory.
    pub fn read_npy(path: impl AsRef<Path>, device: &Device) -> Result<Self> {
        let path = path.as_ref();
        let name = || path.display().to_string();
        let read = |error| Error::read(path, error);
        let format = |error| match error {
            Error::Format { reason, .. } => Error::Format { path: name(), reason },
            other => other,
        };
        let mut file = File::open(path).map_err(read)?;
        let mut bytes = Vec::new();
        file.by_ref().take(header::MAX_BYTES).read_to_end(&mut bytes).map_err(read)?;
        // Reads the data that the header describes, and one byte more to notice data that should not be there.
        let (header, data) = Header::read(&bytes).map_err(|reason| format(invalid(reason)))?;
        let missing = header.bytes().map_or(0, |needed| needed.saturating_sub(data.len()) as u64);
        file.take(missing.saturating_add(1)).read_to_end(&mut bytes).map_err(read)?;
        Self::from_npy(&bytes, device).map_err(format)
    }

    /// Reads the bytes of a `.npy` file.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let device = Device::cpu()?;
    /// let bytes = Tensor::new(&[1i64, 2], &device)?.to_npy()?;
    /// assert_eq!(Tensor::from_npy(&bytes, &device)?.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`read_npy`](Self::read_npy).
    pub fn from_npy(bytes: &[u8], device: &Device) -> Result<Self> {
        let (header, data) = Header::read(bytes).map_err(invalid)?;
        if header.bytes() != Some(data.len()) {
            let (dtype, shape, found) = (header.dtype, &header.shape, data.len());
            return Err(invalid(format!("{found} bytes of data for {dtype} of shape {shape:?}")));
        }
        let data = crate::bytes::from_file(data, header.dtype, header.big_endian)?;
        let mut shape = header.shape;
        if !header.fortran_order {
            return Self::from_bytes(&data, &shape, header.dtype, device);
        }
        shape.reverse();
        let order: Vec<usize> = (0..shape.len()).rev().collect();
        Self::from_bytes(&data, &shape, header.dtype, device)?.permute(&order)
    }

    /// Writes a `.npy` file. Waits until the values are computed.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let path = std::env::temp_dir().join(format!("written-{}.npy", std::process::id()));
    /// Tensor::new(&[[1.0f32, 2.0]], &Device::cpu()?)?.write_npy(&path)?; // numpy.load reads it
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
    /// `bf16`, which NumPy does not have, an error in the computation of the values, or a file that cannot be
    /// written.
    pub fn write_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        std::fs::write(path, self.to_npy()?).map_err(|error| Error::write(path, error))
    }

    /// The bytes of a `.npy` file with these values. Waits until they are computed.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let bytes = Tensor::new(&[1i64, 2], &Device::cpu()?)?.to_npy()?;
    /// assert!(bytes.starts_with(b"\x93NUMPY"));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// The values are not computed yet.
    ///
    /// # Errors
    ///
    /// As for [`write_npy`](Self::write_npy).
    pub fn to_npy(&self) -> Result<Vec<u8>> {
        let Some(header) = header::write(self.dtype(), self.shape()) else {
            let reason = format!("NumPy has no {}: convert with to_dtype first", self.dtype());
            return crate::error::invalid("to_npy", reason);
        };
        let data = self.to_bytes()?;
        let mut bytes = crate::bytes::room(header.len().saturating_add(data.len()))?;
        bytes.extend(header);
        bytes.extend(data);
        Ok(bytes)
    }
}

fn invalid(reason: String) -> Error {
    Error::Format { path: "the .npy data".into(), reason }
}
