//! What a model gave, as bytes that can be compared.

use millstream::graph::closeness::are_close;
use millstream::graph::{Map, MapKeys, MapValues, ModelValue, Outputs};
use millstream::{DType, Download, Result};

/// The outputs of a call, on the host.
pub(crate) struct ModelAnswer {
    pieces: Vec<Piece>,
    outputs: Outputs,
}

enum Piece {
    /// A tensor.
    Tensor(DType, Download),
    /// An output that is on the host already, by its number.
    Host(DType, usize),
    /// Shapes, and what is no tensor of numbers.
    Other(Vec<u8>),
}

impl ModelAnswer {
    /// Waits until all outputs are there.
    ///
    /// # Errors
    ///
    /// What went wrong while they were computed.
    pub fn of(outputs: Outputs) -> Result<Self> {
        let mut pieces = Pieces(Vec::with_capacity(2 * outputs.len()));
        for (number, value) in outputs.iter().enumerate() {
            match (value, outputs.host_bytes(number)) {
                (ModelValue::Tensor(tensor), Some(_)) => {
                    pieces.add_shape(tensor.shape());
                    pieces.0.push(Piece::Host(tensor.dtype(), number));
                }
                _ => pieces.add(value)?,
            }
        }
        let answer = Self { pieces: pieces.0, outputs };
        answer.pieces().try_for_each(|piece| piece.map(drop))?;
        Ok(answer)
    }

    /// Bytes, with the element type of what is a tensor.
    fn pieces(&self) -> impl Iterator<Item = Result<(Option<DType>, &[u8])>> {
        self.pieces.iter().map(|piece| match piece {
            Piece::Tensor(dtype, download) => Ok((Some(*dtype), download.view_bytes()?)),
            Piece::Host(dtype, output) => {
                Ok((Some(*dtype), self.outputs.host_bytes(*output).unwrap_or_default()))
            }
            Piece::Other(bytes) => Ok((None, &bytes[..])),
        })
    }

    /// All of it, one behind the other.
    ///
    /// # Errors
    ///
    /// What went wrong on the device.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let pieces = self.pieces().map(|piece| piece.map(|(_, bytes)| bytes));
        Ok(pieces.collect::<Result<Vec<_>>>()?.concat())
    }

    /// Whether it is this.
    ///
    /// # Errors
    ///
    /// What went wrong on the device.
    pub fn is(&self, expected: &[u8]) -> Result<bool> {
        self.is_by(expected, |_, found, expected| found == expected)
    }

    /// Whether it is this but for the last bits of numbers.
    ///
    /// # Errors
    ///
    /// What went wrong on the device.
    pub fn is_close(&self, expected: &[u8]) -> Result<bool> {
        self.is_by(expected, |dtype, found, expected| match dtype {
            Some(dtype) => are_close(dtype, found, expected),
            None => found == expected,
        })
    }

    fn is_by(
        &self,
        mut expected: &[u8],
        same: impl Fn(Option<DType>, &[u8], &[u8]) -> bool,
    ) -> Result<bool> {
        for piece in self.pieces() {
            let (dtype, found) = piece?;
            match expected.split_at_checked(found.len()) {
                Some((own, rest)) if same(dtype, found, own) => expected = rest,
                _ => return Ok(false),
            }
        }
        Ok(expected.is_empty())
    }
}

/// The pieces of an answer that is being made.
struct Pieces(Vec<Piece>);

impl Pieces {
    fn add(&mut self, value: &ModelValue) -> Result<()> {
        match value {
            ModelValue::Tensor(tensor) => {
                self.add_shape(tensor.shape());
                self.0.push(Piece::Tensor(tensor.dtype(), tensor.download()?));
            }
            ModelValue::Strings(strings) => {
                self.add_shape(strings.shape());
                let texts = strings.values().iter().flat_map(|text| text.bytes().chain([0]));
                self.0.push(Piece::Other(texts.collect()));
            }
            ModelValue::Sequence(values) => {
                self.add_shape(&[values.len()]);
                values.iter().try_for_each(|value| self.add(value))?;
            }
            ModelValue::Optional(value) => {
                self.add_shape(&[usize::from(value.is_some())]);
                value.iter().try_for_each(|value| self.add(value))?;
            }
            ModelValue::Map(map) => self.0.push(Piece::Other(map_bytes(map))),
        }
        Ok(())
    }

    fn add_shape(&mut self, shape: &[usize]) {
        self.0.push(Piece::Other(shape.iter().flat_map(|size| size.to_ne_bytes()).collect()));
    }
}

/// Keys and values.
fn map_bytes(map: &Map) -> Vec<u8> {
    let texts = |texts: &[String]| texts.iter().flat_map(|text| text.bytes().chain([0])).collect();
    let mut bytes: Vec<u8> = match map.keys() {
        MapKeys::Ints(keys) => keys.iter().flat_map(|key| key.to_ne_bytes()).collect(),
        MapKeys::Texts(keys) => texts(keys),
    };
    match map.values() {
        MapValues::Numbers(array) => bytes.extend_from_slice(array.bytes()),
        MapValues::Texts(values) => bytes.extend::<Vec<u8>>(texts(values)),
    }
    bytes
}

#[cfg(test)]
mod tests;
