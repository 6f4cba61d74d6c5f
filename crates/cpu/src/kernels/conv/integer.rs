//! Convolution of 8-bit integers.

use millstream_core::{ConvParams, DType, Operand, RawBuffer};

use super::super::block::base;
use super::super::byte_product::{
    BLOCK_COLUMNS, BLOCK_ROWS, Block, Factors, PRODUCTS_PER_ELEMENT, Zeros,
};
use super::super::fault::{Result, try_share};
use super::super::parallel::{Parallel, Shared};
use super::finish::Placed;
use super::gather::Source;
use super::weight::Weight;
use super::window::{Segment, Window};
use super::{Operands, store_run};

/// One block: output channels of a group by a part of the outputs.
struct Part<'a> {
    window: &'a Window,
    source: &'a Source<u8>,
    weight: &'a Weight<u8>,
    segments: &'a [Segment],
    group: usize,
    /// Input channels of a group.
    channels: usize,
    /// The first output channel, in the group and in all.
    row: usize,
    channel: usize,
    signed: [bool; 2],
    /// The zero point of the input as a byte and as a number.
    padding: (u8, i32),
    weight_zero: Option<(Shared<u8>, usize)>,
}

impl Factors for Part<'_> {
    fn signed(&self) -> [bool; 2] {
        self.signed
    }

    unsafe fn left(&self, row: usize, first: usize, to: &mut [u8]) {
        let columns = first..first + to.len();
        // SAFETY: passed on.
        unsafe {
            let (from, _) = self.weight.rows(self.group, (self.row + row, 1), columns, to);
            if self.weight.is_direct() {
                to.copy_from_slice(std::slice::from_raw_parts(from, to.len()));
            }
        }
    }

    unsafe fn right(&self, step: usize, to: &mut [u8]) {
        let taps = &self.window.taps;
        let channel = self.group * self.channels + step / taps.len();
        for segment in self.segments {
            let to = &mut to[segment.column..][..segment.count];
            let tap = &taps[step % taps.len()];
            // SAFETY: passed on.
            unsafe { self.source.read(self.window, segment, channel, tap, self.padding.0, to) };
        }
    }

    unsafe fn zeros(&self, zeros: Zeros<'_>) {
        zeros.right.fill(self.padding.1);
        for (row, to) in zeros.left.iter_mut().enumerate() {
            *to = self.weight_zero.map_or(0, |(first, stride)| {
                // SAFETY: the zero points have one number for each output channel.
                let byte = unsafe { first.get().add((self.channel + row) * stride).read() };
                number(self.signed[0], byte)
            });
        }
    }
}

fn number(signed: bool, byte: u8) -> i32 {
    if signed { i32::from(byte as i8) } else { i32::from(byte) }
}

/// # Safety
///
/// As for [`execute`](super::super::execute).
pub(in super::super) unsafe fn conv_integer(
    params: &ConvParams,
    operands: &Operands<'_>,
    [src_zero, weight_zero]: [Option<&Operand<RawBuffer>>; 2],
    parallel: &dyn Parallel,
) -> Result {
    let Operands { dst, src, weight, .. } = operands;
    if dst.layout.is_empty() {
        return Ok(());
    }
    let window = Window::of_conv(params, &dst.layout, &src.layout, &weight.layout)?;
    let groups = params.groups as usize;
    let rows = weight.layout.shape()[0] / groups;
    let channels = src.layout.shape()[1] / groups;
    let [row, channel] = [weight.layout.strides()[0], weight.layout.strides()[1]];
    let signed = [weight, src].map(|operand| operand.layout.dtype() == DType::I8);
    // SAFETY: passed on; bytes may be read as `u8`, and the output is not empty.
    let (source, weight, to, padding) = unsafe {
        let source = Source {
            first: Shared::new(base::<u8>(src)),
            batch_stride: src.layout.strides()[0],
            channel_stride: src.layout.strides()[1],
        };
        let strides = [rows.saturating_mul(row), row, channel];
        let padding = src_zero.map_or(0, |zero| base::<u8>(zero).read());
        let weight = Weight::new(base::<u8>(weight), strides, &window.taps)?;
        (source, weight, Placed::<i32>::new(&window, dst), padding)
    };
    let weight_zero = weight_zero.map(|zero| {
        // SAFETY: passed on.
        (Shared::new(unsafe { base::<u8>(zero) }), zero.layout.strides()[0])
    });
    let columns = dst.layout.shape()[0] * window.outputs();
    let depth = channels.saturating_mul(window.taps.len());
    let (down, across) = (rows.div_ceil(BLOCK_ROWS), columns.div_ceil(BLOCK_COLUMNS));
    let area = rows.min(BLOCK_ROWS) * columns.min(BLOCK_COLUMNS);
    let work = area.saturating_mul(depth) / PRODUCTS_PER_ELEMENT + area;
    try_share(parallel, groups * down * across, work, |range| {
        let mut segments = Vec::new();
        for index in range {
            let (group, index) = (index / (down * across), index % (down * across));
            let (row, column) = (index / across * BLOCK_ROWS, index % across * BLOCK_COLUMNS);
            let block = Block {
                rows: BLOCK_ROWS.min(rows - row),
                columns: BLOCK_COLUMNS.min(columns - column),
                depth,
            };
            window.segments(column, block.columns, &mut segments);
            let channel = group * rows + row;
            let part = Part {
                window: &window,
                source: &source,
                weight: &weight,
                segments: &segments,
                group,
                channels,
                row,
                channel,
                signed,
                padding: (padding, number(signed[1], padding)),
                weight_zero,
            };
            // SAFETY: blocks are disjoint parts of the output; the rest is passed on.
            unsafe {
                block.compute(&part, |row, sums| {
                    for segment in &segments {
                        let (to, stride) = to.run(channel + row, segment);
                        store_run(to, stride, &sums[segment.column..][..segment.count]);
                    }
                })?;
            }
        }
        Ok(())
    })
}
