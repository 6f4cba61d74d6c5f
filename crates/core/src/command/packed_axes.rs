//! How quantization to and from 4 bits finds the scale of each element.

use smallvec::{SmallVec, smallvec};

use super::{Op, QuantizeOperands};
use crate::MAX_RANK;

/// An axis of a conversion to or from 4-bit numbers, for backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedAxis {
    /// How many elements there are.
    pub size: usize,
    /// How many neighbors share a scale and a zero point.
    pub block: usize,
    /// Strides of the operand that does not have 4 bits, of the scales, and of the zero points.
    pub strides: [usize; 3],
}

impl PackedAxis {
    const ONE: Self = Self { size: 1, block: 1, strides: [0; 3] };

    /// Advances the positions in the three operands to an index on this axis.
    #[inline]
    pub fn advance(&self, place: usize, positions: &mut [usize; 3]) {
        let shared = place / self.block;
        for (position, (by, stride)) in
            positions.iter_mut().zip([place, shared, shared].into_iter().zip(self.strides))
        {
            *position += by * stride;
        }
    }

    /// This axis and the next one as one axis, if they can be joined.
    fn joined(&self, next: &Self) -> Option<Self> {
        let joins = self.block == 1
            && next.block == 1
            && (0..3).all(|k| next.strides[k].checked_mul(next.size) == Some(self.strides[k]));
        joins.then(|| Self { size: self.size * next.size, ..*next })
    }
}

impl<B> QuantizeOperands<'_, B> {
    /// The axes of a conversion to or from 4-bit numbers: at least one if there are elements, and `None` for any
    /// other operation. 4-bit numbers and their zero points are dense in the order of these axes. Zero points are
    /// therefore not broadcast: call [`PackedAxis::advance`] along every axis to find the one of an element.
    pub fn packed_axes(&self, op: &Op) -> Option<SmallVec<[PackedAxis; MAX_RANK]>> {
        let (Op::Quantize { axis, block, .. } | Op::Dequantize { axis, block, .. }) = op else {
            return None;
        };
        let back = matches!(op, Op::Dequantize { .. });
        let (packed, other) = if back { (self.src, self.dst) } else { (self.dst, self.src) };
        let layout = &packed.layout;
        if layout.dtype().per_byte() == 1 || layout.is_empty() {
            return None;
        }
        let mut axes: SmallVec<[PackedAxis; MAX_RANK]> = smallvec![PackedAxis::ONE];
        for (index, &size) in layout.shape().iter().enumerate().filter(|(_, size)| **size > 1) {
            let own = *axis == Some(index as u8);
            let zero = match (self.zero, block) {
                (Some(zero), Some(_)) => zero.layout.strides()[index],
                (Some(zero), None) if own => zero.layout.strides()[0],
                _ => 0,
            };
            let next = PackedAxis {
                size,
                block: block.filter(|_| own).map_or(1, |block| block as usize),
                strides: [other.layout.strides()[index], self.scale.layout.strides()[index], zero],
            };
            let last = axes.last_mut().expect("one axis or more");
            match last.joined(&next) {
                Some(both) => *last = both,
                None if *last == PackedAxis::ONE => *last = next,
                None => axes.push(next),
            }
        }
        Some(axes)
    }
}
