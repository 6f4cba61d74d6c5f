//! The header of a `.npy` file: a Python dictionary with element type, order and shape.

use millstream::DType;

use super::Elements;

/// What a header says.
#[derive(Debug, PartialEq)]
pub(super) struct Header {
    pub elements: Elements,
    /// Whether the most significant byte of a number comes first.
    pub big_endian: bool,
    /// Whether the first axis is the one whose elements lie side by side.
    pub fortran_order: bool,
    pub shape: Vec<usize>,
}

/// Reads a header.
///
/// # Errors
///
/// What is wrong with it, in words.
pub(super) fn parse(text: &str) -> Result<Header, String> {
    let descr = value(text, "descr")?;
    let Some(descr) = quoted(descr) else {
        return Err("its elements are records; arrays of one type are read".into());
    };
    let (elements, big_endian) = elements(descr)?;
    let order = value(text, "fortran_order")?;
    let fortran_order = match (order.starts_with("True"), order.starts_with("False")) {
        (true, false) => true,
        (false, true) => false,
        _ => return Err(format!("fortran_order is neither True nor False in {text:?}")),
    };
    Ok(Header { elements, big_endian, fortran_order, shape: shape(value(text, "shape")?)? })
}

/// What stands behind a key.
fn value<'a>(text: &'a str, key: &str) -> Result<&'a str, String> {
    let found = ['\'', '"'].iter().find_map(|quote| {
        let (_, behind) = text.split_once(&format!("{quote}{key}{quote}"))?;
        behind.trim_start().strip_prefix(':').map(str::trim_start)
    });
    found.ok_or_else(|| format!("its header has no {key}: {text:?}"))
}

fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|first| matches!(first, '\'' | '"'))?;
    text[1..].split(quote).next()
}

fn shape(text: &str) -> Result<Vec<usize>, String> {
    let inner = text.strip_prefix('(').and_then(|text| text.split(')').next());
    let Some(inner) = inner else { return Err(format!("its shape is no tuple: {text:?}")) };
    let sizes = inner.split(',').map(str::trim).filter(|size| !size.is_empty());
    // Python 2 wrote an L behind long numbers.
    let sizes = sizes.map(|size| {
        let size = size.trim_end_matches('L');
        size.parse().map_err(|_| format!("its shape has a size {size:?}"))
    });
    sizes.collect()
}

fn elements(descr: &str) -> Result<(Elements, bool), String> {
    let (order, kind) = match descr.chars().next() {
        Some(order @ ('<' | '>' | '|' | '=')) => (order, &descr[1..]),
        _ => ('=', descr),
    };
    let big_endian = match order {
        '>' => true,
        '<' => false,
        _ => cfg!(target_endian = "big"),
    };
    let number = match kind {
        "b1" | "?" => Some(DType::Bool),
        "i1" => Some(DType::I8),
        "i2" => Some(DType::I16),
        "i4" => Some(DType::I32),
        "i8" => Some(DType::I64),
        "u1" => Some(DType::U8),
        "u2" => Some(DType::U16),
        "u4" => Some(DType::U32),
        "u8" => Some(DType::U64),
        "f2" => Some(DType::F16),
        "f4" => Some(DType::F32),
        "f8" => Some(DType::F64),
        _ => None,
    };
    if let Some(dtype) = number {
        return Ok((Elements::Numbers(dtype), big_endian));
    }
    let width = || kind.get(1..).and_then(|width| width.parse::<usize>().ok());
    let elements = match (kind.chars().next(), width()) {
        (Some('V'), Some(width)) => Elements::Raw(width),
        // One of the 8-bit types of `ml_dtypes` calls itself a float of one byte.
        (Some('f'), Some(1)) => Elements::Raw(1),
        (Some('U'), Some(width)) => Elements::Texts(width),
        (Some('S' | 'a'), Some(width)) => Elements::Bytes(width),
        (Some('O'), _) => {
            let reason = "it holds Python objects: convert them with astype, strings to str";
            return Err(reason.into());
        }
        _ => return Err(format!("elements of type {descr:?} are not supported")),
    };
    Ok((elements, big_endian))
}
