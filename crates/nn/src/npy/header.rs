//! The header of a `.npy` file: the text of a Python dictionary.

use millstream_core::{DType, MAX_RANK};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Headers of plain arrays take about a hundred bytes.
const LONGEST: usize = 4096;

/// The most bytes before the data.
pub const MAX_BYTES: u64 = (MAGIC.len() + 6 + LONGEST) as u64;

#[derive(Debug, PartialEq)]
pub struct Header {
    pub dtype: DType,
    pub big_endian: bool,
    pub fortran_order: bool,
    pub shape: Vec<usize>,
}

const TYPES: [(&str, DType); 12] = [
    ("f4", DType::F32),
    ("f2", DType::F16),
    ("f8", DType::F64),
    ("i1", DType::I8),
    ("u1", DType::U8),
    ("i4", DType::I32),
    ("i8", DType::I64),
    ("b1", DType::Bool),
    ("i2", DType::I16),
    ("u2", DType::U16),
    ("u4", DType::U32),
    ("u8", DType::U64),
];

impl Header {
    /// The size of the data in bytes, or `None` if it is too large for any machine.
    pub fn bytes(&self) -> Option<usize> {
        self.shape.iter().try_fold(self.dtype.size(), |bytes, &size| bytes.checked_mul(size))
    }

    /// Reads the header. Returns it and the data after it.
    pub fn read(bytes: &[u8]) -> Result<(Self, &[u8]), String> {
        let rest = bytes.strip_prefix(MAGIC).ok_or("it does not begin as a .npy file does")?;
        let (length, rest) = match *rest {
            [1, 0, a, b, ..] => (usize::from(u16::from_le_bytes([a, b])), &rest[4..]),
            [2 | 3, 0, a, b, c, d, ..] => (u32::from_le_bytes([a, b, c, d]) as usize, &rest[6..]),
            [major, minor, ..] => return Err(format!("version {major}.{minor} is not known")),
            _ => return Err("it ends within its header".into()),
        };
        if length > LONGEST {
            return Err(format!("a header of {length} bytes, above {LONGEST}"));
        }
        let (header, data) = rest.split_at_checked(length).ok_or("it ends within its header")?;
        let text = std::str::from_utf8(header).map_err(|_| "its header is not text")?;
        Ok((parse(text)?, data))
    }
}

fn parse(text: &str) -> Result<Header, String> {
    let mut parser = Parser(text);
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    parser.expect("{")?;
    while !parser.take("}") {
        let key = parser.quoted()?;
        parser.expect(":")?;
        match key {
            "descr" => descr = Some(parser.quoted()?),
            "fortran_order" => {
                fortran_order = Some(parser.take("True"));
                if fortran_order == Some(false) {
                    parser.expect("False")?;
                }
            }
            "shape" => shape = Some(parser.tuple()?),
            other => return Err(format!("its header has a key {other:?}")),
        }
        if !parser.take(",") {
            parser.expect("}")?;
            break;
        }
    }
    let missing = |key: &str| format!("its header has no {key}");
    let descr = descr.ok_or_else(|| missing("descr"))?;
    let (order, name) = descr.split_at_checked(1).unwrap_or(("", descr));
    let Some(&(_, dtype)) = TYPES.iter().find(|(known, _)| *known == name) else {
        return Err(format!("elements of type {descr:?}, which there is no type for"));
    };
    let big_endian = match order {
        "<" | "|" => false,
        "=" => cfg!(target_endian = "big"),
        ">" => true,
        _ => return Err(format!("elements of type {descr:?}")),
    };
    Ok(Header {
        dtype,
        big_endian,
        fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
        shape: shape.ok_or_else(|| missing("shape"))?,
    })
}

/// The text that is left to parse.
struct Parser<'a>(&'a str);

impl<'a> Parser<'a> {
    fn take(&mut self, token: &str) -> bool {
        self.0 = self.0.trim_start();
        match self.0.strip_prefix(token) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) {
            return Ok(());
        }
        let found: String = self.0.chars().take(20).collect();
        Err(format!("its header has {found:?} where {token:?} should be"))
    }

    fn quoted(&mut self) -> Result<&'a str, String> {
        let quote = if self.take("\"") { '"' } else { '\'' };
        if quote == '\'' {
            self.expect("'")?;
        }
        let (text, rest) = self.0.split_once(quote).ok_or("its header has an open quote")?;
        self.0 = rest;
        Ok(text)
    }

    fn tuple(&mut self) -> Result<Vec<usize>, String> {
        let mut sizes = Vec::new();
        self.expect("(")?;
        while !self.take(")") {
            if sizes.len() == MAX_RANK {
                return Err(format!("more than {MAX_RANK} axes"));
            }
            self.0 = self.0.trim_start();
            let digits = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
            let (number, rest) = self.0.split_at(digits);
            self.0 = rest;
            sizes.push(number.parse().map_err(|_| format!("a size {number:?} in its header"))?);
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(sizes)
    }
}

/// The header of a file, or `None` if NumPy does not have the type.
pub fn write(dtype: DType, shape: &[usize]) -> Option<Vec<u8>> {
    let (name, _) = TYPES.iter().find(|(_, known)| *known == dtype)?;
    let order = match dtype.size() {
        1 => '|',
        _ if cfg!(target_endian = "big") => '>',
        _ => '<',
    };
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let text =
        format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': ({sizes}), }}");
    // Data begin at a multiple of 64, after a newline.
    let length = (MAGIC.len() + 4 + text.len() + 1).next_multiple_of(64) - MAGIC.len() - 4;
    let mut bytes = [MAGIC, &[1, 0]].concat();
    bytes.extend(u16::try_from(length).ok()?.to_le_bytes());
    bytes.extend(text.bytes());
    bytes.resize(MAGIC.len() + 4 + length - 1, b' ');
    bytes.push(b'\n');
    Some(bytes)
}
