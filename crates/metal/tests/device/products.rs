//! Products with simdgroup matrices: every type, tile and way to read the operands; and without them, on a device that has none.
//!
//! Numbers are small and whole, so that every sum is exact, in any order and in 16 bits too.

use millstream::command::{Activation, Command, ConvParams};
use millstream::memory::{Buffer, Layout};
use millstream::{DType, Stream};
use millstream_metal_driver::control;

use crate::kit::{alone, open};

/// A matrix product: sizes of the batch, m, n and k; and which of the operands lie transposed.
#[derive(Clone, Copy, Debug)]
struct Product {
    sizes: [usize; 4],
    transposed: [bool; 2],
    /// Elements by which rows of the operands are longer than they seem.
    gap: usize,
}

/// -1, 0 and 1 without a pattern.
fn number(at: usize, which: usize) -> f32 {
    (((at * 2_654_435_761 + which * 40_503) >> 7) % 3) as f32 - 1.0
}

fn contiguous(dtype: DType, shape: &[usize]) -> Layout {
    Layout::contiguous(dtype, shape).unwrap()
}

/// Numbers of a type on the device, and what they are.
fn numbers(stream: &Stream, dtype: DType, count: usize, which: usize) -> (Buffer, Vec<f32>) {
    let values: Vec<f32> = (0..count).map(|at| number(at, which)).collect();
    let wide = stream.allocate(count * 4).unwrap();
    stream.upload(wide.operand(contiguous(DType::F32, &[count])), &values).unwrap();
    let own = stream.allocate(count * dtype.size()).unwrap();
    let [to, from] = [(&own, dtype), (&wide, DType::F32)]
        .map(|(buffer, dtype)| buffer.operand(contiguous(dtype, &[count])));
    stream.record(Command::copy(to, from).unwrap()).unwrap();
    (own, values)
}

fn read(stream: &Stream, buffer: &Buffer, dtype: DType, count: usize) -> Vec<f32> {
    let wide = stream.allocate(count * 4).unwrap();
    let [to, from] = [(&wide, DType::F32), (buffer, dtype)]
        .map(|(buffer, dtype)| buffer.operand(contiguous(dtype, &[count])));
    stream.record(Command::copy(to, from).unwrap()).unwrap();
    stream.download(wide.operand(contiguous(DType::F32, &[count]))).unwrap().read().unwrap()
}

/// The operand of a batch of matrices with so many rows and columns, and its strides.
fn operand(
    dtype: DType,
    [batch, rows, columns]: [usize; 3],
    transposed: bool,
    gap: usize,
) -> Layout {
    let (outer, inner) = if transposed { (columns, rows) } else { (rows, columns) };
    let pitch = inner + gap;
    let strides = if transposed { [outer * pitch, 1, pitch] } else { [outer * pitch, pitch, 1] };
    Layout::strided(dtype, &[batch, rows, columns], &strides, 0).unwrap()
}

impl Product {
    fn check(&self, stream: &Stream, dtype: DType) {
        let Self { sizes: [batch, m, n, k], transposed, gap } = *self;
        let a_layout = operand(dtype, [batch, m, k], transposed[0], gap);
        let b_layout = operand(dtype, [batch, k, n], transposed[1], gap);
        let count = |layout: &Layout| layout.extent_bytes() / dtype.size();
        let (a, a_values) = numbers(stream, dtype, count(&a_layout), 1);
        let (b, b_values) = numbers(stream, dtype, count(&b_layout), 2);
        let (bias, bias_values) = numbers(stream, dtype, n, 3);
        let (residual, residual_values) = numbers(stream, dtype, batch * m * n, 4);
        let dst = stream.allocate(batch * m * n * dtype.size()).unwrap();
        let whole = contiguous(dtype, &[batch, m, n]);
        let bias_layout = contiguous(dtype, &[n]).broadcast_to(&[batch, m, n]).unwrap();
        let command = Command::matmul(
            dst.operand(whole),
            a.operand(a_layout),
            b.operand(b_layout),
            Some(bias.operand(bias_layout)),
            Some(residual.operand(whole)),
            2.0,
            Activation::Relu,
        );
        stream.record(command.unwrap()).unwrap();
        let found = read(stream, &dst, dtype, batch * m * n);
        let at = |layout: &Layout, index: [usize; 3]| -> usize {
            index.iter().zip(layout.strides()).map(|(i, stride)| i * stride).sum()
        };
        for (place, found) in found.iter().enumerate() {
            let (item, y, x) = (place / (m * n), place / n % m, place % n);
            let term =
                |i| a_values[at(&a_layout, [item, y, i])] * b_values[at(&b_layout, [item, i, x])];
            let sum: f32 = (0..k).map(term).sum();
            let expected = (2.0 * sum + bias_values[x] + residual_values[place]).max(0.0);
            assert_eq!(*found, expected, "{dtype:?}, {self:?}: row {y}, column {x} of {item}");
        }
    }
}

const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
/// Both read along k, both across, and mixed.
const TRANSPOSED: [[bool; 2]; 4] = [[false, false], [false, true], [true, false], [true, true]];

/// Sizes with a tile of 64 and of 32 each on a device of one core, and those where a group shares k.
const SIZES: [[usize; 4]; 5] =
    [[1, 72, 130, 24], [2, 64, 64, 40], [1, 33, 40, 17], [3, 9, 20, 35], [1, 30, 31, 100]];

/// Every size with every type, and with half of the ways to read the operands.
fn check_products(stream: &Stream, types: &[DType]) {
    for dtype in types {
        for (index, sizes) in SIZES.into_iter().enumerate() {
            for (turn, transposed) in TRANSPOSED.into_iter().enumerate() {
                if (index + turn + turn / 2 + *dtype as usize).is_multiple_of(2) {
                    continue;
                }
                // Rows that begin at multiples of 16 bytes, and rows that do not.
                let gap = if (index + turn) % 4 < 2 { 8 - sizes[3] % 8 } else { 1 };
                Product { sizes, transposed, gap }.check(stream, *dtype);
            }
        }
    }
}

/// A convolution over one axis with padding and a stride.
fn check_convolution(stream: &Stream, dtype: DType) {
    let (channels, outputs, length, taps) = (5, 20, 64, 3);
    let out = (length + 2 - taps) / 2 + 1;
    let (src, src_values) = numbers(stream, dtype, 2 * channels * length, 5);
    let (weight, weights) = numbers(stream, dtype, outputs * channels * taps, 6);
    let (bias, bias_values) = numbers(stream, dtype, outputs, 7);
    let dst = stream.allocate(2 * outputs * out * dtype.size()).unwrap();
    let mut params = ConvParams::new(1);
    (params.pad_before[0], params.pad_after[0], params.stride[0]) = (1, 1, 2);
    let bias_layout = contiguous(dtype, &[outputs]);
    let command = Command::conv(
        dst.operand(contiguous(dtype, &[2, outputs, out])),
        src.operand(contiguous(dtype, &[2, channels, length])),
        weight.operand(contiguous(dtype, &[outputs, channels, taps])),
        Some(bias.operand(bias_layout)),
        None,
        params,
        1.0,
        Activation::None,
    );
    stream.record(command.unwrap()).unwrap();
    let found = read(stream, &dst, dtype, 2 * outputs * out);
    for (place, found) in found.iter().enumerate() {
        let (item, output, x) = (place / (outputs * out), place / out % outputs, place % out);
        let mut sum = bias_values[output];
        for channel in 0..channels {
            for tap in 0..taps {
                let at = (2 * x + tap).wrapping_sub(1);
                if at < length {
                    sum += src_values[(item * channels + channel) * length + at]
                        * weights[(output * channels + channel) * taps + tap];
                }
            }
        }
        assert_eq!(*found, sum, "{dtype:?}: {place}");
    }
}

alone! {
    fn products_with_matrices_are_exact() {
        control::set_registry_cores(1);
        assert!(millstream_metal::usual_limits().matrices);
        let stream = open().stream().unwrap();
        check_products(&stream, &TYPES);
        TYPES.iter().for_each(|dtype| check_convolution(&stream, *dtype));
    }

    /// A long k is shared by the simd groups of a group.
    fn a_shared_k_is_summed_whole() {
        let stream = open().stream().unwrap();
        for k in [256, 517, 1030] {
            Product { sizes: [1, 40, 33, k], transposed: [false, false], gap: 3 }.check(&stream, DType::F32);
        }
        Product { sizes: [1, 40, 33, 530], transposed: [true, false], gap: 0 }.check(&stream, DType::F16);
    }

    /// Languages before 3.1 have no matrices of bf16: their numbers are staged as f32.
    fn an_older_language_has_products_of_bf16_too() {
        control::set_registry_cores(1);
        control::set_system_version(13, 0);
        let stream = open().stream().unwrap();
        check_products(&stream, &[DType::BF16]);
        check_convolution(&stream, DType::BF16);
    }

    /// The driver would notice a pipeline with matrices there.
    fn a_device_without_matrices_multiplies_all_the_same() {
        control::set_paravirtual(true);
        assert!(!millstream_metal::usual_limits().matrices);
        let stream = open().stream().unwrap();
        check_products(&stream, &[DType::F16]);
    }
}
