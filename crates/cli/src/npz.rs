//! Archives of NumPy: what `numpy.savez` and `numpy.savez_compressed` write, a zip file of `.npy` files.

mod inflate;

use std::path::Path;

use millstream::{Error, Result};

use crate::npy::{self, NumpyArray};

/// The arrays of an archive, with their names.
///
/// # Errors
///
/// A file that cannot be read or is no archive, or is compressed in another way than NumPy does.
pub(crate) fn read_file(path: &Path) -> Result<Vec<(String, NumpyArray)>> {
    let bytes = std::fs::read(path).map_err(|error| Error::read(path, error))?;
    read(&bytes).map_err(|reason| Error::Format { path: path.display().to_string(), reason })
}

/// Little-endian numbers at a place.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn slice(&self, at: usize, count: usize) -> Result<&'a [u8], String> {
        let end = at.checked_add(count);
        end.and_then(|end| self.0.get(at..end)).ok_or_else(|| "it is cut off".into())
    }

    fn number(&self, at: usize, count: usize) -> Result<u64, String> {
        let bytes = self.slice(at, count)?.iter().rev();
        Ok(bytes.fold(0, |number, &byte| (number << 8) | u64::from(byte)))
    }

    fn size(&self, at: usize, count: usize) -> Result<usize, String> {
        usize::try_from(self.number(at, count)?).map_err(|_| "it has a size beyond memory".into())
    }
}

const END: &[u8] = b"PK\x05\x06";
const ENTRY: &[u8] = b"PK\x01\x02";
/// The end is that long, but for a comment behind it.
const END_BYTES: usize = 22;
const LONGEST_COMMENT: usize = 1 << 16;

fn read(bytes: &[u8]) -> Result<Vec<(String, NumpyArray)>, String> {
    let file = Reader(bytes);
    let last = bytes.len().saturating_sub(END_BYTES);
    let places = (last.saturating_sub(LONGEST_COMMENT)..=last).rev();
    let end = places.into_iter().find(|&at| bytes[at..].starts_with(END));
    let Some(end) = end else { return Err("it is no .npz file".into()) };
    let (count, mut at) = (file.size(end + 10, 2)?, file.size(end + 16, 4)?);
    let mut arrays = Vec::new();
    for _ in 0..count {
        if file.slice(at, 4)? != ENTRY {
            return Err("its table of contents is not valid".into());
        }
        let [method, name, extra, comment] = [10, 28, 30, 32].map(|field| file.size(at + field, 2));
        let (name, extra, comment) = (name?, extra?, comment?);
        let text = String::from_utf8_lossy(file.slice(at + 46, name)?).into_owned();
        let (packed, length, start) = place(&file, at, file.slice(at + 46 + name, extra)?)?;
        // The entry's own header has names and fields of its own lengths.
        let header = Reader(file.slice(start, 30)?);
        let skipped = 30 + header.size(26, 2)? + header.size(28, 2)?;
        let contents = file.slice(start.saturating_add(skipped), packed)?;
        let array = match method? {
            0 => npy::read(contents),
            8 => inflate::inflate(contents, length).and_then(|bytes| npy::read(&bytes[..])),
            _ => Err("it is compressed in another way than numpy.savez_compressed does".into()),
        };
        let array = array.map_err(|reason| format!("{text}: {reason}"))?;
        arrays.push((text.strip_suffix(".npy").unwrap_or(&text).to_owned(), array));
        at += 46 + name + extra + comment;
    }
    Ok(arrays)
}

/// How long an entry is in the file and by itself, and where it begins. What does not fit 32 bits is in an extra field of 64.
fn place(file: &Reader<'_>, entry: usize, extra: &[u8]) -> Result<(usize, usize, usize), String> {
    const LARGE: u64 = u32::MAX as u64;
    let [packed, length, start] = [20, 24, 42].map(|field| file.number(entry + field, 4));
    let (packed, length, start) = (packed?, length?, start?);
    let (fields, mut at) = (Reader(extra), 0);
    let mut large = None;
    while at + 4 <= extra.len() {
        let (kind, size) = (fields.number(at, 2)?, fields.size(at + 2, 2)?);
        if kind == 1 {
            large = Some(Reader(fields.slice(at + 4, size)?));
        }
        at += 4 + size;
    }
    let mut place = 0;
    let mut wide = |small: u64| -> Result<usize, String> {
        if small != LARGE {
            return usize::try_from(small).map_err(|_| "it has a size beyond memory".into());
        }
        place += 8;
        match &large {
            Some(large) => large.size(place - 8, 8),
            None => Err("it has an entry without its size".into()),
        }
    };
    // In this order they stand in the field.
    let length = wide(length)?;
    let packed = wide(packed)?;
    Ok((packed, length, wide(start)?))
}

#[cfg(test)]
mod tests;
