use millstream_core::{Activation, BoundCommand, Command, ConvParams, DType, Layout};

use crate::kernels::shared::simd::on_every_isa;
use crate::kernels::shared::testing::{
    Tensor, assert_close, assert_same_bits_in_any_order, noise, run,
};

/// A convolution of a picture, and how large it is.
#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    channels: usize,
    outputs: usize,
    size: [usize; 2],
    kernel: [usize; 2],
    params: ConvParams,
    transposed: bool,
}

fn params(stride: [u32; 2], pad: u32, dilation: u32, groups: u32) -> ConvParams {
    ConvParams {
        stride: [stride[0], stride[1], 1],
        pad_before: [pad, pad, 0],
        pad_after: [pad, pad, 0],
        dilation: [dilation, dilation, 1],
        groups,
        ..ConvParams::new(2)
    }
}

fn cases() -> Vec<Case> {
    let one = |channels, outputs, size, kernel, params| Case {
        batch: 2,
        channels,
        outputs,
        size,
        kernel,
        params,
        transposed: false,
    };
    vec![
        // Lines with padding, and several of them in a tile; a rest of columns, and whole panels alone.
        one(5, 40, [7, 9], [3, 3], params([1, 1], 1, 1, 1)),
        one(3, 64, [6, 130], [3, 3], params([2, 2], 1, 1, 1)),
        // One tap: read in place, flat and with steps.
        one(24, 33, [5, 6], [1, 1], params([1, 1], 0, 1, 1)),
        one(24, 33, [5, 6], [1, 1], params([2, 3], 0, 1, 1)),
        // Taps that are not neighbors, and steps beyond them.
        one(4, 20, [9, 9], [3, 2], params([1, 1], 2, 2, 1)),
        one(4, 20, [9, 20], [2, 2], params([3, 5], 1, 1, 1)),
        // Windows that see padding alone.
        one(2, 16, [2, 2], [1, 1], params([1, 1], 3, 1, 1)),
        // No channels: what is left is bias and residual.
        one(0, 16, [4, 4], [3, 3], params([1, 1], 1, 1, 1)),
        one(0, 2, [2, 2], [1, 1], params([2, 2], 0, 1, 1)),
        // Groups, and groups of one channel.
        one(6, 48, [5, 5], [3, 3], params([1, 1], 1, 1, 3)),
        one(37, 37, [8, 7], [5, 3], params([2, 1], 2, 1, 37)),
        one(16, 16, [4, 120], [3, 3], params([1, 1], 1, 2, 16)),
        // Many taps of many places at once, some of them twice, in lines that are cut and in short ones.
        one(20, 20, [3, 250], [5, 5], params([1, 1], 2, 1, 20)),
        one(300, 300, [4, 22], [5, 5], params([1, 1], 2, 1, 300)),
        // Tiles of whole lines, as many as threads share evenly.
        one(4, 36, [20, 20], [3, 3], params([1, 1], 1, 1, 1)),
        // Widths of one register and of one and a half, and a line with padding at its ends alone.
        one(8, 24, [5, 90], [3, 3], params([1, 1], 1, 1, 1)),
        one(3, 16, [5, 90], [3, 3], params([2, 2], 1, 1, 1)),
        one(7, 12, [4, 33], [1, 5], params([1, 1], 2, 1, 1)),
        one(9, 1, [6, 40], [3, 3], params([1, 1], 1, 1, 1)),
        Case { transposed: true, ..one(24, 1, [5, 40], [2, 2], params([2, 2], 0, 1, 1)) },
        Case { transposed: true, ..one(6, 35, [4, 5], [3, 3], params([2, 2], 1, 1, 1)) },
        Case { transposed: true, ..one(20, 20, [4, 5], [2, 2], params([2, 2], 0, 1, 20)) },
    ]
}

/// Axes in an order in memory, the last one innermost.
fn in_order(dtype: DType, shape: [usize; 4], order: [usize; 4]) -> Layout {
    let sorted = order.map(|axis| shape[axis]);
    let mut back = [0; 4];
    order.iter().enumerate().for_each(|(at, &axis)| back[axis] = at);
    Layout::contiguous(dtype, &sorted).unwrap().permute(&back).unwrap()
}

impl Case {
    fn shapes(&self) -> [[usize; 4]; 3] {
        let groups = self.params.groups as usize;
        let [channels, outputs] = [self.channels, self.outputs];
        let [kh, kw] = self.kernel;
        let weight = if self.transposed {
            [channels, outputs / groups, kh, kw]
        } else {
            [outputs, channels / groups, kh, kw]
        };
        let side = |axis: usize| {
            let stride = self.params.stride[axis] as usize;
            let pads = 2 * self.params.pad_before[axis] as usize;
            let reach = (self.kernel[axis] - 1) * self.params.dilation[axis] as usize + 1;
            if self.transposed {
                (self.size[axis] - 1) * stride + reach - pads
            } else {
                (self.size[axis] + pads - reach) / stride + 1
            }
        };
        let [height, width] = self.size;
        let from = [self.batch, channels, height, width];
        [from, weight, [self.batch, outputs, side(0), side(1)]]
    }

    /// The operands, with the channels first or last; input, weights, bias, residual and output.
    fn operands(&self, dtype: DType, last: bool, seen: &[f64]) -> [Tensor; 5] {
        let [from, by, to] = self.shapes();
        let order = if last { [0, 2, 3, 1] } else { [0, 1, 2, 3] };
        let weights = match (last, self.transposed) {
            (false, _) => [0, 1, 2, 3],
            (true, false) => [2, 3, 1, 0],
            (true, true) => [2, 3, 0, 1],
        };
        let count = |shape: [usize; 4]| shape.iter().product();
        let bias = Layout::contiguous(dtype, &[self.outputs, 1, 1]).unwrap();
        let residual = noise(count([1, to[1], to[2], to[3]]), 4);
        [
            Tensor::floats_strided(in_order(dtype, from, order), seen),
            Tensor::floats_strided(in_order(dtype, by, weights), &noise(count(by), 2)),
            Tensor::floats_strided(bias, &noise(self.outputs, 3)),
            Tensor::floats_strided(in_order(dtype, [1, to[1], to[2], to[3]], order), &residual),
            Tensor::uninit(in_order(dtype, to, order)),
        ]
    }

    fn command(&self, [src, weight, bias, residual, dst]: &[Tensor; 5]) -> BoundCommand {
        let broadcast = |tensor: &Tensor| {
            let mut operand = tensor.operand();
            operand.layout = operand.layout.broadcast_to(dst.layout.shape()).unwrap();
            operand
        };
        let (to, from, by) = (dst.operand(), src.operand(), weight.operand());
        let (bias, params, act) = (Some(broadcast(bias)), self.params, Activation::Silu);
        // Both ways of the epilogue.
        let scale = if self.outputs.is_multiple_of(2) { 1.0 } else { 0.5 };
        if self.transposed {
            return Command::conv_transpose(to, from, by, bias, params, scale, act).unwrap();
        }
        let residual = Some(broadcast(residual));
        Command::conv(to, from, by, bias, residual, params, scale, act).unwrap()
    }

    fn computed(&self, dtype: DType, last: bool, seen: &[f64]) -> Vec<f64> {
        let operands = self.operands(dtype, last, seen);
        run(Ok(self.command(&operands)));
        operands[4].to_f64()
    }

    fn seen(&self) -> Vec<f64> {
        noise(self.shapes()[0].iter().product(), 1)
    }
}

#[test]
fn channels_last_give_the_results_of_channels_first() {
    for case in cases() {
        let seen = case.seen();
        for dtype in [DType::F32, DType::F64, DType::F16] {
            let tolerance = match dtype {
                DType::F32 => 1e-5,
                DType::F64 => 1e-13,
                _ => 3e-3,
            };
            let expected = case.computed(dtype, false, &seen);
            for found in on_every_isa(|| case.computed(dtype, true, &seen)) {
                assert_close(&found, &expected, tolerance);
            }
        }
    }
}

#[test]
fn bits_depend_neither_on_threads_nor_on_the_batch() {
    for case in cases() {
        let seen = case.seen();
        let operands = case.operands(DType::F32, true, &seen);
        assert_same_bits_in_any_order(&case.command(&operands), &operands[4]);
        let whole = operands[4].to_f64();
        let size = seen.len() / case.batch;
        let alone = Case { batch: 1, ..case };
        for (index, whole) in whole.chunks(whole.len() / case.batch).enumerate() {
            let one = alone.computed(DType::F32, true, &seen[index * size..][..size]);
            assert!(one == whole, "{case:?}");
        }
    }
}

/// What is not a number stays where its places are seen, and nothing of the padding becomes one.
#[test]
fn what_is_outside_is_not_read() {
    for case in cases() {
        let seen = vec![f64::INFINITY; case.seen().len()];
        let first = case.computed(DType::F32, false, &seen);
        let last = case.computed(DType::F32, true, &seen);
        for (index, (first, last)) in first.iter().zip(&last).enumerate() {
            let same = first == last || first.is_nan() == last.is_nan();
            assert!(same, "{case:?}, element {index}: {first} and {last}");
        }
    }
}
