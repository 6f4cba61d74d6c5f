//! Arrays, which every compiler turns into what the architecture has.

use super::{Vector, Widen};
use crate::kernels::shared::number::{Float, StoredFloat};

/// Numbers that the compiler may keep in a register.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(in crate::kernels) struct Array<F, const LANES: usize>([F; LANES]);

/// Whether every CPU of the architecture fuses; without an instruction for it, it is very slow.
const FUSES: bool = cfg!(target_arch = "aarch64");

impl<F: Float, const LANES: usize> Vector for Array<F, LANES> {
    type Number = F;
    const LANES: usize = LANES;

    #[inline(always)]
    unsafe fn splat(number: F) -> Self {
        Array([number; LANES])
    }

    #[inline(always)]
    unsafe fn load(from: *const F) -> Self {
        // SAFETY: passed on.
        Array(unsafe { from.cast::<[F; LANES]>().read() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut F) {
        // SAFETY: passed on.
        unsafe { to.cast::<[F; LANES]>().write(self.0) }
    }

    #[inline(always)]
    unsafe fn add_product(mut self, lhs: Self, rhs: Self) -> Self {
        for lane in 0..LANES {
            let (lhs, rhs) = (lhs.0[lane], rhs.0[lane]);
            self.0[lane] =
                if FUSES { lhs.mul_add(rhs, self.0[lane]) } else { self.0[lane] + lhs * rhs };
        }
        self
    }
}

impl<T: StoredFloat, const LANES: usize> Widen<T> for Array<T::Compute, LANES> {
    #[inline(always)]
    unsafe fn widen(from: *const T) -> Self {
        // SAFETY: passed on.
        Array(std::array::from_fn(|lane| unsafe { from.add(lane).read() }.widen()))
    }
}
