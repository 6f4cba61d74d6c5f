//! What makes two batches the same: operations, layouts and addresses, as a row of words.
//!
//! What a transfer carries is no part of it, only where it goes and how much it is; and where it comes from or
//! goes on the host, if the device reaches that by itself. Built at every submit
//! into a buffer that is used again, so it allocates nothing.

use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use millstream_core::{BoundCommand, Op, Operand, PlanPart, RawBuffer};

use crate::memory::device_address;
use crate::platform::Platform;

/// A batch as words.
pub(crate) struct Signature<P> {
    /// The number of the device that the batches are for.
    device: usize,
    words: Vec<u64>,
    platform: PhantomData<P>,
}

/// Stands where else the kind of a Command does. How many addresses a plan has follows from its number.
const PLAN: u64 = u64::MAX;

/// Appends what is hashed, so that everything with a derived `Hash` can be written down.
impl<P> Hasher for Signature<P> {
    fn finish(&self) -> u64 {
        // The multiply and rotate of FxHash: the words are ours, nobody chooses them to collide. Four
        // numbers side by side, since each step waits for the one before.
        let step =
            |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        let mut hashes = [0u64, 1, 2, 3];
        let (rows, rest) = self.words.as_chunks::<4>();
        for row in rows {
            for (hash, &word) in hashes.iter_mut().zip(row) {
                *hash = step(*hash, word);
            }
        }
        rest.iter().chain(&hashes).fold(self.words.len() as u64, |hash, &word| step(hash, word))
    }

    fn write(&mut self, bytes: &[u8]) {
        self.words.push(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.words.push(u64::from_ne_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.words.push(word);
    }

    fn write_u8(&mut self, value: u8) {
        self.words.push(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.words.push(value.into());
    }

    fn write_usize(&mut self, value: usize) {
        self.words.push(value as u64);
    }
}

impl<P: Platform> Signature<P> {
    pub fn new(device: usize) -> Self {
        Self { device, words: Vec::new(), platform: PhantomData }
    }

    /// Writes a batch down in place of the one before.
    pub fn write_batch(&mut self, commands: &[BoundCommand], plan: Option<&PlanPart>) {
        self.words.clear();
        let Some(part) = plan else { return self.write_commands(commands) };
        self.write_commands(&commands[..part.commands.start]);
        // The numbers say what its Commands are, so they need not be looked at.
        self.words.extend([PLAN, part.plan, part.part.into()]);
        self.words.extend(part.addresses().map(|address| address as u64));
        self.write_commands(&commands[part.commands.end..]);
    }

    fn write_commands(&mut self, commands: &[BoundCommand]) {
        for command in commands {
            self.words.push(command.op().kind() as u64);
            for (_, operand) in command.accesses() {
                self.operand(operand);
            }
            self.operation(command.op());
        }
    }

    fn operand(&mut self, operand: &Operand<RawBuffer>) {
        let layout = &operand.layout;
        let (address, offset) = (operand.buffer.address as u64, layout.offset() as u64);
        let kind = layout.dtype() as u64 | (layout.rank() as u64) << 8;
        match (layout.shape(), layout.strides()) {
            // Most are matrices: a length that is known makes for a few plain stores.
            (&[rows, columns], &[down, right]) => {
                let axes = [rows, columns, down, right].map(|word| word as u64);
                let [rows, columns, down, right] = axes;
                self.words.extend_from_slice(&[address, kind, offset, rows, columns, down, right]);
            }
            (shape, strides) => {
                self.words.extend_from_slice(&[address, kind, offset]);
                self.words.extend(shape.iter().map(|&size| size as u64));
                self.words.extend(strides.iter().map(|&stride| stride as u64));
            }
        }
    }

    /// The words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    fn operation(&mut self, op: &Op) {
        // Of a transfer counts where on the host the device reaches; how much it is is in the operand.
        if let Op::Upload { source: host, .. } | Op::Download { target: host } = op {
            self.words.push(device_address::<P>(self.device, host).unwrap_or(0) as u64);
        } else {
            op.hash(self);
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream_core::{
        Activation, BinaryOp, Command, CoordinateMode, DType, Distribution, HostBytes, Layout,
        MAX_RANK, NearestRounding, PadMode, PadParams, ResizeMode, ResizeParams, Scalar, UnaryOp,
    };

    use super::*;
    use crate::fake::Fake;

    fn operand(address: usize, shape: &[usize]) -> Operand<RawBuffer> {
        let layout = Layout::contiguous(DType::F32, shape).unwrap();
        Operand::new(RawBuffer { address, bytes: 4096 }, layout)
    }

    fn of(commands: &[BoundCommand]) -> (Vec<u64>, u64) {
        let mut signature = Signature::<Fake>::new(0);
        signature.write_batch(commands, None);
        (signature.words().to_vec(), signature.finish())
    }

    #[test]
    fn what_is_the_same_has_one_signature_and_what_differs_has_another() {
        let fill = |address, value: f32| Command::fill(operand(address, &[4]), value).unwrap();
        assert_eq!(of(&[fill(64, 1.0)]), of(&[fill(64, 1.0)]));
        let all = [
            of(&[fill(64, 1.0)]),
            of(&[fill(128, 1.0)]),
            of(&[fill(64, 2.0)]),
            of(&[fill(64, 0.0)]),
            of(&[fill(64, -0.0)]),
            of(&[fill(64, 1.0), fill(64, 1.0)]),
            of(&[Command::fill(operand(64, &[2, 2]), 1.0f32).unwrap()]),
            of(&[Command::unary(UnaryOp::Exp, operand(0, &[4]), operand(64, &[4])).unwrap()]),
            of(&[Command::unary(UnaryOp::Log, operand(0, &[4]), operand(64, &[4])).unwrap()]),
        ];
        for (index, one) in all.iter().enumerate() {
            for other in &all[..index] {
                assert!(one.0 != other.0 && one.1 != other.1, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn operations_of_one_kind_differ_by_their_parameters() {
        let random = |seed| {
            let normal = Distribution::Normal { mean: 0.0, deviation: 1.0 };
            Command::random(operand(0, &[4]), normal, seed, 0).unwrap()
        };
        assert_ne!(of(&[random(1)]).0, of(&[random(2)]).0);
        let binary = |op| {
            Command::binary(op, operand(0, &[4]), operand(64, &[4]), operand(128, &[4])).unwrap()
        };
        assert_ne!(of(&[binary(BinaryOp::Add)]).0, of(&[binary(BinaryOp::Sub)]).0);
        let matmul = |activation| {
            let (dst, a, b) = (operand(0, &[2, 2]), operand(64, &[2, 2]), operand(128, &[2, 2]));
            Command::matmul(dst, a, b, None, None, 1.0, activation).unwrap()
        };
        let slope = |slope| matmul(Activation::LeakyRelu { slope });
        assert_ne!(of(&[slope(0.1)]).0, of(&[slope(0.2)]).0);
        assert_ne!(of(&[matmul(Activation::Silu)]).0, of(&[matmul(Activation::Tanh)]).0);
    }

    #[test]
    fn resizes_and_paddings_are_told_apart() {
        let resize = |mode, scale| {
            let (mut scales, unit) = ([1.0; MAX_RANK], [(0.0, 1.0); MAX_RANK]);
            scales[0] = scale;
            let params = ResizeParams {
                mode,
                coordinates: CoordinateMode::HalfPixel,
                scales,
                region: unit,
                extrapolation: 0.0,
                exclude_outside: false,
                antialias: false,
                sizes: [1; 8],
            };
            Command::resize(operand(0, &[8]), operand(64, &[4]), params).unwrap()
        };
        let pad = |mode, before| {
            let mut params = PadParams { mode, before: [0; MAX_RANK], after: [0; MAX_RANK] };
            (params.before[0], params.after[0]) = (before, 4 - before);
            Command::pad(operand(0, &[8]), operand(64, &[4]), params).unwrap()
        };
        let all = [
            of(&[resize(ResizeMode::Linear, 2.0)]),
            of(&[resize(ResizeMode::Linear, 2.1)]),
            of(&[resize(ResizeMode::Cubic(-0.5), 2.0)]),
            of(&[resize(ResizeMode::Cubic(-0.75), 2.0)]),
            of(&[resize(ResizeMode::Nearest(NearestRounding::Floor), 2.0)]),
            of(&[resize(ResizeMode::Nearest(NearestRounding::Ceil), 2.0)]),
            of(&[pad(PadMode::Edge, 1)]),
            of(&[pad(PadMode::Edge, 2)]),
            of(&[pad(PadMode::Wrap, 1)]),
            of(&[pad(PadMode::Constant(Scalar::Float(0.0)), 1)]),
            of(&[pad(PadMode::Constant(Scalar::Float(1.0)), 1)]),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|other| one.0 != other.0), "{index}");
        }
        assert_eq!(all[6], of(&[pad(PadMode::Edge, 1)]));
    }

    #[test]
    fn contents_of_transfers_do_not_count() {
        let upload = |value: u8| {
            let bytes = HostBytes::copy_of(&[value; 16]);
            Command::upload(operand(64, &[4]), bytes).unwrap()
        };
        assert_eq!(of(&[upload(1)]), of(&[upload(2)]));
    }
}
