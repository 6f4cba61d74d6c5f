//! Arrays of NumPy: files that `numpy.save` writes and `numpy.load` reads.

mod header;
mod read;
#[cfg(test)]
mod tests;
mod write;

use millstream::DType;

pub(crate) use read::{read, read_file};
pub(crate) use write::{Numpy, write_file, write_texts};

/// What the elements of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elements {
    /// Numbers or truth values.
    Numbers(DType),
    /// So many bytes each. NumPy has no type for what they are: `ml_dtypes` writes bf16 and smaller types like this.
    Raw(usize),
    /// Texts of up to so many code points, 4 bytes each.
    Texts(usize),
    /// Texts of up to so many bytes.
    Bytes(usize),
}

impl Elements {
    fn size(self) -> Option<usize> {
        match self {
            Elements::Numbers(dtype) => Some(dtype.size()),
            Elements::Raw(size) | Elements::Bytes(size) => Some(size),
            Elements::Texts(size) => size.checked_mul(4),
        }
    }
}

impl std::fmt::Display for Elements {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Elements::Numbers(dtype) => write!(f, "{dtype}"),
            Elements::Raw(size) => write!(f, "V{size}"),
            Elements::Texts(_) | Elements::Bytes(_) => f.write_str("string"),
        }
    }
}

/// An array of a file: bytes in row-major order, in the byte order of this machine.
#[derive(Debug, PartialEq)]
pub(crate) struct NumpyArray {
    pub elements: Elements,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl NumpyArray {
    /// The strings of an array of texts.
    ///
    /// # Errors
    ///
    /// An array of something else, or a text that is not valid, in words.
    pub fn texts(&self) -> Result<Vec<String>, String> {
        let count = self.shape.iter().product();
        // NumPy fills up with zeros, so zeros at the end are not part of a text.
        match self.elements {
            Elements::Texts(0) | Elements::Bytes(0) => Ok(vec![String::new(); count]),
            Elements::Texts(width) => self.bytes.chunks_exact(4 * width).map(code_points).collect(),
            Elements::Bytes(width) => self.bytes.chunks_exact(width).map(utf8).collect(),
            Elements::Numbers(_) | Elements::Raw(_) => {
                Err(format!("it holds {}, not strings", self.elements))
            }
        }
    }
}

fn code_points(bytes: &[u8]) -> Result<String, String> {
    let points = bytes.chunks_exact(4).map(|bytes| {
        let number = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        char::from_u32(number).ok_or_else(|| format!("{number:#x} is no code point"))
    });
    let text: String = points.collect::<Result<_, _>>()?;
    Ok(text.trim_end_matches('\0').to_owned())
}

fn utf8(bytes: &[u8]) -> Result<String, String> {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    match std::str::from_utf8(&bytes[..end]) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(format!("a text is not UTF-8: {error}")),
    }
}
