//! Reading `.npy` files.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use millstream::{DType, Error, Result};

use super::header::{Header, parse};
use super::{Elements, NumpyArray};

/// A header is short; what is longer is none.
const LONGEST_HEADER: usize = 1 << 20;

/// Reads the array of a file.
///
/// # Errors
///
/// A file that cannot be read or is no array.
pub(crate) fn read_file(path: &Path) -> Result<NumpyArray> {
    let file = File::open(path).map_err(|error| Error::read(path, error))?;
    let kind = file.metadata().map_err(|error| Error::read(path, error))?;
    if kind.is_dir() {
        let error = std::io::Error::from(std::io::ErrorKind::IsADirectory);
        return Err(Error::read(path, error));
    }
    read(BufReader::new(file))
        .map_err(|reason| Error::Format { path: path.display().to_string(), reason })
}

/// Reads an array.
///
/// # Errors
///
/// What is wrong with it, in words.
pub(crate) fn read(mut from: impl Read) -> Result<NumpyArray, String> {
    let header = read_header(&mut from)?;
    let Header { elements, big_endian, fortran_order, shape } = header;
    let count = shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
    let needed = elements.size().and_then(|size| count?.checked_mul(size));
    let Some(needed) = needed else { return Err(format!("shape {shape:?} is too large")) };
    // Memory grows with what arrives, whatever the header says.
    let mut bytes = Vec::new();
    let read = from.take(needed as u64).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.len() < needed {
        let found = bytes.len();
        return Err(format!("it ends after {found} bytes of the array; there should be {needed}"));
    }
    let unit = match elements {
        Elements::Numbers(dtype) => dtype.size(),
        Elements::Texts(_) => 4,
        Elements::Raw(_) | Elements::Bytes(_) => 1,
    };
    if unit > 1 && big_endian != cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
    }
    if elements == Elements::Numbers(DType::Bool) {
        // Any byte but 0 is true to NumPy; kernels know 1 alone.
        bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
    if fortran_order && shape.len() > 1 {
        bytes = row_major(&bytes, &shape, elements.size().unwrap_or(1));
    }
    Ok(NumpyArray { elements, shape, bytes })
}

fn read_header(from: &mut impl Read) -> Result<Header, String> {
    let mut take = |count: usize| {
        let mut bytes = vec![0; count];
        from.read_exact(&mut bytes).map(|()| bytes)
    };
    let start = take(8).map_err(|_| "it is no .npy file: it is too short")?;
    if !start.starts_with(b"\x93NUMPY") {
        return Err("it is no .npy file: it does not begin as one".into());
    }
    let short = |_| "it ends within its header";
    let length = match start[6] {
        1 => take(2).map(|bytes| u64::from(u16::from_le_bytes([bytes[0], bytes[1]]))),
        2 | 3 => take(4).map(|b| u64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
        version => return Err(format!("version {version} of .npy files is not known")),
    };
    let length = length.map_err(short)? as usize;
    if length > LONGEST_HEADER {
        return Err(format!("its header has {length} bytes"));
    }
    let header = take(length).map_err(short)?;
    parse(&String::from_utf8_lossy(&header))
}

/// From the order in which the first axis changes fastest to that in which the last one does.
fn row_major(bytes: &[u8], shape: &[usize], size: usize) -> Vec<u8> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = size;
    for &size in shape {
        strides.push(stride);
        stride = stride.saturating_mul(size);
    }
    let mut ordered = Vec::with_capacity(bytes.len());
    let mut index = vec![0usize; shape.len()];
    let mut from = 0;
    while ordered.len() < bytes.len() {
        ordered.extend_from_slice(&bytes[from..from + size]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            from += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            from -= index[axis] * strides[axis];
            index[axis] = 0;
        }
    }
    ordered
}
