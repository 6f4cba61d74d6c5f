//! Weights in the order that products read them.

use millstream_core::{DType, Operand, RawBuffer};

use super::Tensor;
use crate::kernels::matmul::panels::PanelElement;
use crate::kernels::shared::number::{Float, Stored, StoredFloat};

/// The weight of a layer.
pub(super) enum Weight<T> {
    Floats(Tensor<T>),
    Bytes(Bytes<T>),
}

/// 8-bit integers that stand for `(weight - zero) · scale`, with scales and zero points for each row.
pub(super) struct Bytes<T> {
    bytes: Tensor<u8>,
    is_signed: bool,
    scale: Tensor<T>,
    zero: Option<Tensor<u8>>,
}

impl<T: StoredFloat<Compute: PanelElement>> Weight<T> {
    /// # Safety
    ///
    /// The operands are there, of the types that the layer's rules say, at host pointers.
    pub unsafe fn new(
        weight: &Operand<RawBuffer>,
        scale: Option<&Operand<RawBuffer>>,
        zero: Option<&Operand<RawBuffer>>,
    ) -> Self {
        // SAFETY: passed on; bytes are bytes, whatever their sign.
        unsafe {
            let Some(scale) = scale else { return Weight::Floats(Tensor::new(weight)) };
            Weight::Bytes(Bytes {
                bytes: Tensor::new(weight),
                is_signed: weight.layout.dtype() == DType::I8,
                scale: Tensor::new(scale),
                zero: zero.map(|zero| Tensor::new(zero)),
            })
        }
    }

    /// Packs the rows of a weight as columns: for every gate panels of `width` rows, in each all steps of
    /// k. The last panel of a gate is filled up with zeros.
    ///
    /// # Safety
    ///
    /// The weight has gates of `hidden` rows with so many steps, and nobody writes it.
    pub unsafe fn pack(
        &self,
        direction: usize,
        k: usize,
        size: (usize, usize),
        to: &mut [T::Compute],
    ) {
        // SAFETY: passed on.
        unsafe {
            match self {
                Weight::Floats(weight) => {
                    pack_gates(weight, direction, k, size, to, |_, value| value.widen());
                }
                Weight::Bytes(weight) => {
                    let number = |byte: u8| match weight.is_signed {
                        true => T::Compute::from_f32(f32::from(byte as i8)),
                        false => T::Compute::from_f32(f32::from(byte)),
                    };
                    let row = |row: usize| {
                        let zero = weight.zero.map(|zero| zero.at([direction, row, 0]).read());
                        let scale = weight.scale.at([direction, row, 0]).read().widen();
                        (zero.map_or(T::Compute::ZERO, number), scale)
                    };
                    pack_gates(&weight.bytes, direction, k, size, to, |at, byte| {
                        let (zero, scale) = row(at);
                        (number(byte) - zero) * scale
                    });
                }
            }
        }
    }
}

/// As [`Weight::pack`], with a function of the row and of each of its elements.
///
/// # Safety
///
/// As there.
unsafe fn pack_gates<S: Stored, F: Float>(
    weight: &Tensor<S>,
    direction: usize,
    k: usize,
    (hidden, width): (usize, usize),
    to: &mut [F],
    value: impl Fn(usize, S) -> F,
) {
    if k == 0 {
        return;
    }
    let panels = hidden.div_ceil(width);
    for (index, to) in to.chunks_exact_mut(k * width).enumerate() {
        let (gate, panel) = (index / panels, index % panels);
        for lane in 0..width {
            let row = panel * width + lane;
            let to = to[lane..].iter_mut().step_by(width);
            if row >= hidden {
                to.for_each(|to| *to = F::ZERO);
                continue;
            }
            let row = gate * hidden + row;
            // SAFETY: passed on.
            unsafe {
                let from = weight.at([direction, row, 0]).cast_const();
                for (step, to) in to.enumerate() {
                    *to = value(row, from.add(step * weight.strides[2]).read());
                }
            }
        }
    }
}
