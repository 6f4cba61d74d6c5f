//! Writing `.npy` files.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use millstream::{DType, Error, Result};

/// How an element type is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numpy {
    /// The type in which the numbers are written: the same, or one that NumPy has and that holds each of its numbers.
    pub dtype: DType,
    /// NumPy's name of that type.
    pub descr: &'static str,
}

impl Numpy {
    pub fn of(dtype: DType) -> Self {
        let (dtype, descr) = match dtype {
            DType::F32 => (dtype, "<f4"),
            DType::F64 => (dtype, "<f8"),
            DType::F16 => (dtype, "<f2"),
            DType::I8 => (dtype, "|i1"),
            DType::I16 => (dtype, "<i2"),
            DType::I32 => (dtype, "<i4"),
            DType::I64 => (dtype, "<i8"),
            DType::U8 => (dtype, "|u1"),
            DType::U16 => (dtype, "<u2"),
            DType::U32 => (dtype, "<u4"),
            DType::U64 => (dtype, "<u8"),
            DType::Bool => (dtype, "|b1"),
            DType::BF16
            | DType::F8E4M3FN
            | DType::F8E5M2
            | DType::F8E4M3FNUZ
            | DType::F8E5M2FNUZ
            | DType::F8E8M0
            | DType::F4E2M1 => (DType::F32, "<f4"),
            DType::I4 => (DType::I8, "|i1"),
            DType::U4 => (DType::U8, "|u1"),
        };
        Self { dtype, descr }
    }
}

/// Writes numbers in row-major order, in the byte order of this machine.
///
/// # Errors
///
/// A file that cannot be written.
pub(crate) fn write_file(path: &Path, numpy: Numpy, shape: &[usize], bytes: &[u8]) -> Result<()> {
    let little = cfg!(target_endian = "little") || numpy.dtype.size() == 1;
    write(path, numpy.descr, shape, |to| {
        if little {
            return to.write_all(bytes);
        }
        bytes.chunks_exact(numpy.dtype.size()).try_for_each(|element| {
            let mut element = element.to_vec();
            element.reverse();
            to.write_all(&element)
        })
    })
}

/// Writes strings, each with as many code points as the longest has.
///
/// # Errors
///
/// A file that cannot be written.
pub(crate) fn write_texts(path: &Path, shape: &[usize], texts: &[String]) -> Result<()> {
    let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
    write(path, &format!("<U{width}"), shape, |to| {
        texts.iter().try_for_each(|text| {
            let points = text.chars().map(u32::from).chain(std::iter::repeat(0)).take(width);
            points.into_iter().try_for_each(|point| to.write_all(&point.to_le_bytes()))
        })
    })
}

fn write(
    path: &Path,
    descr: &str,
    shape: &[usize],
    contents: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<()> {
    let write = || {
        let mut to = BufWriter::new(File::create(path)?);
        to.write_all(&header(descr, shape))?;
        contents(&mut to)?;
        to.flush()
    };
    write().map_err(|error: std::io::Error| Error::write(path, error))
}

/// The beginning of a file, up to the first element.
fn header(descr: &str, shape: &[usize]) -> Vec<u8> {
    let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let shape = format!("({}{comma})", sizes.join(", "));
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    // Elements begin at a multiple of 64 bytes, behind magic bytes, version, length, text and line end.
    let before = 10 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', before.next_multiple_of(64) - before));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    // A shape has at most eight sizes, so the text is far below what two bytes can count.
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.into_bytes());
    bytes
}
