//! Convolution of 8-bit integers.

use millstream_core::{Activation, ConvParams, DType, Operand, RawBuffer};

use super::epilogue::WindowedOperand;
use super::gather::Source;
use super::weight::Weight;
use super::window::{Segment, Window};
use super::{Operands, store_run};
use crate::kernels::int8_gemm::{
    Activate, PRODUCTS_PER_ELEMENT, RescaleOperands, RescaledElement, Scale, Scales, TILE_COLUMNS,
    TILE_ROWS, Tile, TileOperands, Zeros, add, add_to_sums, with_rescaled,
};
use crate::kernels::shared::block::base;
use crate::kernels::shared::fault::{Result, try_share};
use crate::kernels::shared::parallel::{Parallel, Shared};
use crate::kernels::shared::simd::vectorized;

/// One tile: output channels of a group by a part of the outputs.
struct Im2colTile<'a> {
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

impl TileOperands for Im2colTile<'_> {
    fn signed(&self) -> [bool; 2] {
        self.signed
    }

    unsafe fn lhs(&self, row: usize, first: usize, to: &mut [u8]) {
        let columns = first..first + to.len();
        // SAFETY: passed on.
        unsafe {
            let (from, _) = self.weight.rows(self.group, (self.row + row, 1), columns, to);
            if self.weight.is_direct() {
                to.copy_from_slice(std::slice::from_raw_parts(from, to.len()));
            }
        }
    }

    unsafe fn rhs(&self, step: usize, to: &mut [u8]) {
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
        zeros.rhs.fill(self.padding.1);
        for (row, to) in zeros.lhs.iter_mut().enumerate() {
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
/// As for [`execute`](crate::kernels::execute).
pub(crate) unsafe fn conv_integer(
    params: &ConvParams,
    operands: &Operands<'_>,
    zeros: [Option<&Operand<RawBuffer>>; 2],
    extras: Option<&RescaleOperands<'_>>,
    parallel: &dyn Parallel,
) -> Result {
    let dst = operands.dst;
    if dst.layout.is_empty() {
        return Ok(());
    }
    let window =
        Window::of_conv(params, &dst.layout, &operands.src.layout, &operands.weight.layout)?;
    // SAFETY: passed on; the types are those of the operands.
    unsafe {
        match extras {
            None => {
                let to = WindowedOperand::<i32>::new(&window, dst);
                tiles(params, operands, &window, zeros, parallel, |channel, segments, sums| {
                    for segment in segments {
                        let (to, stride) = to.run(channel, segment);
                        store_run(to, stride, &sums[segment.column..][..segment.count]);
                    }
                })
            }
            Some(extras) => with_rescaled!(dst.layout.dtype(), T => {
                let epilogue = Rescaled::<T>::new(&window, dst, extras);
                tiles(params, operands, &window, zeros, parallel, |channel, segments, sums| {
                    epilogue.store(channel, segments, sums);
                })
            }),
        }
    }
}

/// What is made of sums, and where it goes.
struct Rescaled<T: RescaledElement> {
    activation: Activation,
    dst: WindowedOperand<T>,
    /// Scales of the input and of all output channels.
    scales: [(Shared<f32>, usize); 2],
    sums_bias: Option<(Shared<i32>, usize)>,
    bias: Option<(Shared<T::Added>, usize)>,
    residual: Option<WindowedOperand<T::Added>>,
    dst_scale: (f32, f32),
}

impl<T: RescaledElement> Rescaled<T> {
    /// # Safety
    ///
    /// As for [`execute`](crate::kernels::execute), with an output that is not empty and has elements of type `T`.
    unsafe fn new(window: &Window, dst: &Operand<RawBuffer>, extras: &RescaleOperands<'_>) -> Self {
        let [sums_bias, bias] = extras.biases();
        // SAFETY: passed on; a bias has one number for each output channel.
        unsafe {
            Rescaled {
                activation: extras.rescale.activation,
                dst: WindowedOperand::new(window, dst),
                scales: extras
                    .scales
                    .map(|scale| (Shared::new(base(scale)), scale.layout.strides()[0])),
                sums_bias: sums_bias
                    .map(|bias| (Shared::new(base(bias)), bias.layout.strides()[1])),
                bias: bias.map(|bias| (Shared::new(base(bias)), bias.layout.strides()[1])),
                residual: extras.residual.map(|residual| WindowedOperand::new(window, residual)),
                dst_scale: extras.dst_scale(),
            }
        }
    }

    /// Stores what is made of a row of sums of a channel.
    ///
    /// # Safety
    ///
    /// The segments and the channel belong to the output, and nobody else touches them.
    unsafe fn store(&self, channel: usize, segments: &[Segment], sums: &mut [i32]) {
        let mut values = [0.0; TILE_COLUMNS];
        let values = &mut values[..sums.len()];
        // SAFETY: passed on.
        unsafe {
            if let Some((first, stride)) = self.sums_bias {
                add_to_sums(first.get().add(channel * stride), 0, sums);
            }
            let [(src, _), (weight, stride)] = self.scales;
            let scale = src.get().read() * weight.get().add(channel * stride).read();
            vectorized(Scale { sums, scales: Scales::One(scale), to: &mut *values });
            if let Some((first, stride)) = self.bias {
                add(first.get().add(channel * stride).cast_const(), 0, values);
            }
            if let Some(residual) = &self.residual {
                for segment in segments {
                    let (from, stride) = residual.run(channel, segment);
                    let values = &mut values[segment.column..][..segment.count];
                    add(from.cast_const(), stride, values);
                }
            }
            vectorized(Activate { activation: self.activation, values: &mut *values });
            T::make(values, self.dst_scale, |results| {
                for segment in segments {
                    let (to, stride) = self.dst.run(channel, segment);
                    store_run::<T>(to, stride, &results[segment.column..][..segment.count]);
                }
            });
        }
    }
}

/// Hands over the sums of a part of each output channel.
unsafe fn tiles(
    params: &ConvParams,
    operands: &Operands<'_>,
    window: &Window,
    [src_zero, weight_zero]: [Option<&Operand<RawBuffer>>; 2],
    parallel: &dyn Parallel,
    store: impl Fn(usize, &[Segment], &mut [i32]) + Sync,
) -> Result {
    let Operands { dst, src, weight, .. } = operands;
    let groups = params.groups as usize;
    let rows = weight.layout.shape()[0] / groups;
    let channels = src.layout.shape()[1] / groups;
    let [row, channel] = [weight.layout.strides()[0], weight.layout.strides()[1]];
    let signed = [weight, src].map(|operand| operand.layout.dtype() == DType::I8);
    // SAFETY: passed on; bytes may be read as `u8`, and the output is not empty.
    let (source, weight, padding) = unsafe {
        let source = Source {
            first: Shared::new(base::<u8>(src)),
            batch_stride: src.layout.strides()[0],
            channel_stride: src.layout.strides()[1],
        };
        let strides = [rows.saturating_mul(row), row, channel];
        let padding = src_zero.map_or(0, |zero| base::<u8>(zero).read());
        let weight = Weight::new(base::<u8>(weight), strides, &window.taps)?;
        (source, weight, padding)
    };
    let weight_zero = weight_zero.map(|zero| {
        // SAFETY: passed on.
        (Shared::new(unsafe { base::<u8>(zero) }), zero.layout.strides()[0])
    });
    let columns = dst.layout.shape()[0] * window.outputs();
    let k = channels.saturating_mul(window.taps.len());
    let (down, across) = (rows.div_ceil(TILE_ROWS), columns.div_ceil(TILE_COLUMNS));
    let area = rows.min(TILE_ROWS) * columns.min(TILE_COLUMNS);
    let work = area.saturating_mul(k) / PRODUCTS_PER_ELEMENT + area;
    try_share(parallel, groups * down * across, work, |range| {
        let mut segments = Vec::new();
        for index in range {
            let (group, index) = (index / (down * across), index % (down * across));
            let (row, column) = (index / across * TILE_ROWS, index % across * TILE_COLUMNS);
            let tile = Tile {
                rows: TILE_ROWS.min(rows - row),
                columns: TILE_COLUMNS.min(columns - column),
                k,
            };
            window.segments(column, tile.columns, &mut segments);
            let channel = group * rows + row;
            let part = Im2colTile {
                window,
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
            // SAFETY: tiles are disjoint parts of the output; the rest is passed on.
            unsafe {
                tile.compute(&part, |row, sums| store(channel + row, &segments, sums))?;
            }
        }
        Ok(())
    })
}
