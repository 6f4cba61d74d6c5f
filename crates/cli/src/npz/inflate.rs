//! Deflate (RFC 1951), as `numpy.savez_compressed` writes it.

/// The longest code of a symbol.
const MAX_BITS: usize = 15;

/// Of the symbols 257 to 284, how many further bits each has. The lengths of a symbol begin where those of the one before end.
const LENGTH_BITS: [u8; 28] =
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5];

/// The shortest length, and the longest, which has a symbol of its own: 285.
const MIN_LENGTH: usize = 3;
const MAX_LENGTH: usize = 258;

/// The same for distances, which begin at 1.
const DISTANCE_BITS: [u8; 30] = [
    0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13,
    13,
];

/// The order in which the lengths of the codes for lengths stand.
const LENGTH_ORDER: [usize; 19] =
    [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// What is wrong with the bytes.
fn invalid<T>() -> Result<T, String> {
    Err("what is compressed is not valid".into())
}

/// The bytes that these were made of, which are so many.
///
/// # Errors
///
/// Bytes that are not valid, or another number of them.
pub(super) fn inflate(compressed: &[u8], length: usize) -> Result<Vec<u8>, String> {
    let mut from = Bits { bytes: compressed, held: 0, count: 0 };
    // Memory grows with what arrives, whatever the archive says.
    let mut made = Made { bytes: Vec::new(), length };
    loop {
        let is_last = from.take(1)? == 1;
        match from.take(2)? {
            0 => stored(&mut from, &mut made)?,
            1 => {
                let (symbols, distances) = fixed()?;
                block(&mut from, &mut made, &symbols, &distances)?;
            }
            2 => {
                let (symbols, distances) = dynamic(&mut from)?;
                block(&mut from, &mut made, &symbols, &distances)?;
            }
            _ => return invalid(),
        }
        if is_last {
            break;
        }
    }
    if made.bytes.len() == length { Ok(made.bytes) } else { invalid() }
}

/// What was made so far, and how much it should become.
struct Made {
    bytes: Vec<u8>,
    length: usize,
}

impl Made {
    fn room(&self, count: usize) -> Result<(), String> {
        if self.length - self.bytes.len() < count { invalid() } else { Ok(()) }
    }

    /// Bytes that were made before, again. They may overlap with those that are made by this.
    fn repeat(&mut self, distance: usize, count: usize) -> Result<(), String> {
        self.room(count)?;
        let Some(start) = self.bytes.len().checked_sub(distance) else { return invalid() };
        for at in start..start + count {
            self.bytes.push(self.bytes[at]);
        }
        Ok(())
    }
}

/// Bits, those of a byte from the lowest on.
struct Bits<'a> {
    /// What is not read yet.
    bytes: &'a [u8],
    /// Bits of a byte that was read, and how many.
    held: u32,
    count: u32,
}

impl<'a> Bits<'a> {
    fn byte(&mut self) -> Result<u8, String> {
        match self.bytes.split_first() {
            Some((&first, rest)) => {
                self.bytes = rest;
                Ok(first)
            }
            None => invalid(),
        }
    }

    /// A number of up to 16 bits.
    fn take(&mut self, bits: u8) -> Result<usize, String> {
        let bits = u32::from(bits);
        while self.count < bits {
            self.held |= u32::from(self.byte()?) << self.count;
            self.count += 8;
        }
        let number = self.held & ((1 << bits) - 1);
        self.held >>= bits;
        self.count -= bits;
        Ok(number as usize)
    }

    /// Whole bytes, from the next one on.
    fn slice(&mut self, count: usize) -> Result<&'a [u8], String> {
        (self.held, self.count) = (0, 0);
        match self.bytes.split_at_checked(count) {
            Some((slice, rest)) => {
                self.bytes = rest;
                Ok(slice)
            }
            None => invalid(),
        }
    }
}

/// A Huffman code: shorter codes come first, and codes of one length in the order of their symbols.
struct Code {
    /// Symbols that have a code of each length.
    counts: [usize; MAX_BITS + 1],
    /// Symbols in the order of their codes.
    symbols: Vec<usize>,
}

impl Code {
    /// The code in which each symbol has so many bits; 0 stands for a symbol that does not occur.
    fn new(lengths: &[u8]) -> Result<Self, String> {
        let mut counts = [0usize; MAX_BITS + 1];
        lengths.iter().for_each(|&length| counts[usize::from(length)] += 1);
        counts[0] = 0;
        let mut free = 1usize;
        for count in &counts[1..] {
            match (2 * free).checked_sub(*count) {
                Some(left) => free = left,
                None => return invalid(),
            }
        }
        let mut symbols: Vec<usize> = (0..lengths.len()).filter(|&at| lengths[at] > 0).collect();
        symbols.sort_by_key(|&symbol| lengths[symbol]);
        Ok(Self { counts, symbols })
    }

    fn symbol(&self, from: &mut Bits<'_>) -> Result<usize, String> {
        // The first code of this length, and the place of its symbol.
        let (mut code, mut first, mut place) = (0, 0, 0);
        for &count in &self.counts[1..] {
            code |= from.take(1)?;
            if code < first + count {
                return Ok(self.symbols[place + code - first]);
            }
            place += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        invalid()
    }
}

/// Bytes as they are.
fn stored(from: &mut Bits<'_>, made: &mut Made) -> Result<(), String> {
    let header = from.slice(4)?;
    let number = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    if number(0) != !number(2) {
        return invalid();
    }
    let count = usize::from(number(0));
    made.room(count)?;
    made.bytes.extend_from_slice(from.slice(count)?);
    Ok(())
}

/// The codes for symbols and distances that need not be said.
fn fixed() -> Result<(Code, Code), String> {
    let symbols = [[8; 144].as_slice(), &[9; 112], &[7; 24], &[8; 8]].concat();
    Ok((Code::new(&symbols)?, Code::new(&[5; 30])?))
}

/// The codes that stand before a block, themselves in a code.
fn dynamic(from: &mut Bits<'_>) -> Result<(Code, Code), String> {
    let (symbols, distances) = (257 + from.take(5)?, 1 + from.take(5)?);
    let said = 4 + from.take(4)?;
    let mut lengths = [0u8; 19];
    for place in &LENGTH_ORDER[..said] {
        lengths[*place] = from.take(3)? as u8;
    }
    let code = Code::new(&lengths)?;
    let mut lengths: Vec<u8> = Vec::new();
    while lengths.len() < symbols + distances {
        let (length, count) = match code.symbol(from)? {
            length @ 0..=15 => (length as u8, 1),
            16 => match lengths.last() {
                Some(&last) => (last, 3 + from.take(2)?),
                None => return invalid(),
            },
            17 => (0, 3 + from.take(3)?),
            _ => (0, 11 + from.take(7)?),
        };
        lengths.extend(std::iter::repeat_n(length, count));
    }
    if lengths.len() > symbols + distances {
        return invalid();
    }
    let (symbols, distances) = lengths.split_at(symbols);
    Ok((Code::new(symbols)?, Code::new(distances)?))
}

/// Bytes, and pieces of what was made before, up to the end of a block.
fn block(
    from: &mut Bits<'_>,
    made: &mut Made,
    symbols: &Code,
    distances: &Code,
) -> Result<(), String> {
    const END: usize = 256;
    loop {
        let symbol = symbols.symbol(from)?;
        if symbol < END {
            made.room(1)?;
            made.bytes.push(symbol as u8);
            continue;
        }
        if symbol == END {
            return Ok(());
        }
        let length = match symbol - END - 1 {
            last if last == LENGTH_BITS.len() => MAX_LENGTH,
            at => MIN_LENGTH + further(from, &LENGTH_BITS, at)?,
        };
        let distance = distances.symbol(from)?;
        let distance = 1 + further(from, &DISTANCE_BITS, distance)?;
        made.repeat(distance, length)?;
    }
}

/// A number of a table: so many as the symbols before have, and the further bits of this one.
fn further(from: &mut Bits<'_>, bits: &[u8], at: usize) -> Result<usize, String> {
    let Some(&own) = bits.get(at) else { return invalid() };
    let before: usize = bits[..at].iter().map(|&bits| 1usize << bits).sum();
    Ok(before + from.take(own)?)
}

#[cfg(test)]
mod tests;
