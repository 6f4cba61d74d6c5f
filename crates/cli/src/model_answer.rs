//! What a model gave, as bytes that can be compared.

use millstream::graph::{Map, MapKeys, MapValues, ModelValue, Outputs};
use millstream::{Download, Result};

/// The outputs of a call, on the host.
pub(crate) struct ModelAnswer {
    pieces: Vec<Piece>,
    outputs: Outputs,
}

enum Piece {
    /// A tensor.
    Tensor(Download),
    /// An output that is on the host already, by its number.
    Host(usize),
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
                    pieces.0.push(Piece::Host(number));
                }
                _ => pieces.add(value)?,
            }
        }
        let answer = Self { pieces: pieces.0, outputs };
        answer.pieces().try_for_each(|piece| piece.map(drop))?;
        Ok(answer)
    }

    fn pieces(&self) -> impl Iterator<Item = Result<&[u8]>> {
        self.pieces.iter().map(|piece| match piece {
            Piece::Tensor(download) => download.view_bytes(),
            Piece::Host(output) => Ok(self.outputs.host_bytes(*output).unwrap_or_default()),
            Piece::Other(bytes) => Ok(&bytes[..]),
        })
    }

    /// All of it, one behind the other.
    ///
    /// # Errors
    ///
    /// What went wrong on the device.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let pieces: Vec<&[u8]> = self.pieces().collect::<Result<_>>()?;
        Ok(pieces.concat())
    }

    /// Whether it is this.
    ///
    /// # Errors
    ///
    /// What went wrong on the device.
    pub fn is(&self, mut expected: &[u8]) -> Result<bool> {
        for piece in self.pieces() {
            match expected.strip_prefix(piece?) {
                Some(rest) => expected = rest,
                None => return Ok(false),
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
                self.0.push(Piece::Tensor(tensor.download()?));
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
