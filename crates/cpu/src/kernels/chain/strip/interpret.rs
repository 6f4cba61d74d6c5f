//! The instructions with the vectors of each ISA.

/// The loop over strips, with the names of an ISA: `Vector` and `Mask`, so many `LANES`, and their functions.
macro_rules! strips {
    ($features:literal, $vectors:literal) => {
        /// Elements of a strip.
        pub(in crate::kernels::chain) const STRIP: usize = $vectors * LANES;

        const _: () = assert!(STRIP <= SLOT);

        /// Runs a program.
        ///
        /// # Safety
        ///
        /// As for [`run`](crate::kernels::chain::run), on a CPU that has these instructions.
        #[target_feature(enable = $features)]
        pub(in crate::kernels::chain) unsafe fn run(
            program: &Program,
            sources: &Sources,
            to: *mut f32,
            len: usize,
        ) {
            let (mut kept, mut mask) = ([splat(0.0); $vectors], [no_mask(); $vectors]);
            let mut first = 0;
            while first < len {
                let mut a = [splat(0.0); $vectors];
                for instruction in program.instructions() {
                    let Instruction { opcode, location, swapped, low, high } = *instruction;
                    let mut b = a;
                    // SAFETY: inputs have so many elements from here on, or one, and slots have a strip.
                    unsafe {
                        match location {
                            Location::Accumulator => {}
                            Location::Kept => b = kept,
                            Location::Slot(slot) => {
                                let at = sources.slots.add(usize::from(slot) * SLOT);
                                if opcode == Opcode::Store {
                                    each!(k, $vectors => store(at.add(k * LANES), a[k]));
                                } else {
                                    each!(k, $vectors => b[k] = load(at.add(k * LANES)));
                                }
                            }
                            Location::Input(input) => {
                                let source = sources.inputs.get_unchecked(usize::from(input));
                                if opcode == Opcode::Mask {
                                    if source.step == 0 {
                                        mask = [mask_splat(*source.first); $vectors];
                                    } else {
                                        let at = source.first.add(first);
                                        each!(k, $vectors => mask[k] = mask_of(at.add(k * LANES)));
                                    }
                                } else if source.step == 0 {
                                    b = [splat(*source.first.cast()); $vectors];
                                } else {
                                    let at = source.first.cast::<f32>().add(first);
                                    each!(k, $vectors => b[k] = load(at.add(k * LANES)));
                                }
                            }
                        }
                    }
                    if swapped {
                        std::mem::swap(&mut a, &mut b);
                    }
                    match opcode {
                        Opcode::Load => a = b,
                        Opcode::Keep => kept = a,
                        Opcode::Store | Opcode::Mask => {}
                        Opcode::Add => each!(k, $vectors => a[k] = add(a[k], b[k])),
                        Opcode::Sub => each!(k, $vectors => a[k] = sub(a[k], b[k])),
                        Opcode::Mul => each!(k, $vectors => a[k] = mul(a[k], b[k])),
                        Opcode::Div => each!(k, $vectors => a[k] = div(a[k], b[k])),
                        Opcode::Max => each!(k, $vectors => {
                            a[k] = choose(or(greater(a[k], b[k]), nan(a[k])), a[k], b[k]);
                        }),
                        Opcode::Min => each!(k, $vectors => {
                            a[k] = choose(or(less(a[k], b[k]), nan(a[k])), a[k], b[k]);
                        }),
                        Opcode::Relu => {
                            let zero = splat(0.0);
                            each!(k, $vectors => a[k] = choose(less_equal(a[k], zero), zero, a[k]));
                        }
                        Opcode::Neg => each!(k, $vectors => a[k] = negate(a[k])),
                        Opcode::Abs => each!(k, $vectors => a[k] = absolute(a[k])),
                        Opcode::Square => each!(k, $vectors => a[k] = mul(a[k], a[k])),
                        Opcode::Sqrt => each!(k, $vectors => a[k] = root(a[k])),
                        Opcode::Reciprocal => {
                            let one = splat(1.0);
                            each!(k, $vectors => a[k] = div(one, a[k]));
                        }
                        Opcode::Clip => {
                            let (low, high) = (splat(low), splat(high));
                            each!(k, $vectors => a[k] = clip(a[k], low, high));
                        }
                        Opcode::LeakyRelu => {
                            let (zero, slope) = (splat(0.0), splat(low));
                            each!(k, $vectors => {
                                a[k] = choose(less(a[k], zero), mul(slope, a[k]), a[k]);
                            });
                        }
                        Opcode::HardSigmoid => {
                            let (alpha, beta) = (splat(low), splat(high));
                            let (zero, one) = (splat(0.0), splat(1.0));
                            each!(k, $vectors => {
                                a[k] = clip(add(mul(alpha, a[k]), beta), zero, one);
                            });
                        }
                        Opcode::HardSwish => {
                            let (zero, three, six) = (splat(0.0), splat(3.0), splat(6.0));
                            each!(k, $vectors => {
                                let factor = clip(add(a[k], three), zero, six);
                                a[k] = div(mul(a[k], factor), six);
                            });
                        }
                        Opcode::Equal => each!(k, $vectors => mask[k] = equal(a[k], b[k])),
                        Opcode::NotEqual => each!(k, $vectors => mask[k] = not_equal(a[k], b[k])),
                        Opcode::Less => each!(k, $vectors => mask[k] = less(a[k], b[k])),
                        Opcode::LessEqual => each!(k, $vectors => mask[k] = less_equal(a[k], b[k])),
                        Opcode::Greater => each!(k, $vectors => mask[k] = greater(a[k], b[k])),
                        Opcode::GreaterEqual => {
                            each!(k, $vectors => mask[k] = greater_equal(a[k], b[k]));
                        }
                        Opcode::Choose => each!(k, $vectors => a[k] = choose(mask[k], a[k], b[k])),
                    }
                    // A comparison leaves the accumulator as it was.
                    if swapped && opcode.compares() {
                        a = b;
                    }
                }
                // SAFETY: the output has room for the strip.
                unsafe { each!(k, $vectors => store(to.add(first + k * LANES), a[k])) };
                first += STRIP;
            }
        }
    };
}

macro_rules! each {
    ($index:ident, $count:literal => $body:expr) => {
        for $index in 0..$count {
            $body;
        }
    };
}

impl super::Opcode {
    #[inline(always)]
    fn compares(self) -> bool {
        use super::Opcode::*;
        matches!(self, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
    }
}

/// 512-bit vectors, of which there are 32.
pub(super) mod avx512 {
    use std::arch::x86_64::*;

    use crate::kernels::chain::strip::{Instruction, Location, Opcode, Program, SLOT, Sources};

    type Vector = __m512;
    type Mask = __mmask16;
    const LANES: usize = 16;

    macro_rules! functions {
        ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block)*) => {$(
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            fn $name($($argument: $type),*) -> $result $body
        )*};
    }

    functions! {
        splat(x: f32) -> Vector { _mm512_set1_ps(x) }
        add(a: Vector, b: Vector) -> Vector { _mm512_add_ps(a, b) }
        sub(a: Vector, b: Vector) -> Vector { _mm512_sub_ps(a, b) }
        mul(a: Vector, b: Vector) -> Vector { _mm512_mul_ps(a, b) }
        div(a: Vector, b: Vector) -> Vector { _mm512_div_ps(a, b) }
        root(a: Vector) -> Vector { _mm512_sqrt_ps(a) }
        negate(a: Vector) -> Vector { _mm512_xor_ps(a, splat(-0.0)) }
        absolute(a: Vector) -> Vector { _mm512_andnot_ps(splat(-0.0), a) }
        // Of NaN and of equal numbers these give the second.
        clip(a: Vector, low: Vector, high: Vector) -> Vector { _mm512_min_ps(high, _mm512_max_ps(low, a)) }
        no_mask() -> Mask { 0 }
        or(a: Mask, b: Mask) -> Mask { a | b }
        choose(mask: Mask, a: Vector, b: Vector) -> Vector { _mm512_mask_mov_ps(b, mask, a) }
        nan(a: Vector) -> Mask { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a) }
        equal(a: Vector, b: Vector) -> Mask { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b) }
        not_equal(a: Vector, b: Vector) -> Mask { _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(a, b) }
        less(a: Vector, b: Vector) -> Mask { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b) }
        less_equal(a: Vector, b: Vector) -> Mask { _mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b) }
        greater(a: Vector, b: Vector) -> Mask { _mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b) }
        greater_equal(a: Vector, b: Vector) -> Mask { _mm512_cmp_ps_mask::<_CMP_GE_OQ>(a, b) }
        mask_splat(x: u8) -> Mask { if x != 0 { 0xffff } else { 0 } }
    }

    /// # Safety
    ///
    /// So many elements are there.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load(from: *const f32) -> Vector {
        // SAFETY: passed on.
        unsafe { _mm512_loadu_ps(from) }
    }

    /// # Safety
    ///
    /// There is room for so many elements.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store(to: *mut f32, a: Vector) {
        // SAFETY: passed on.
        unsafe { _mm512_storeu_ps(to, a) }
    }

    /// # Safety
    ///
    /// So many truth values are there.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn mask_of(from: *const u8) -> Mask {
        // SAFETY: passed on.
        let bytes = unsafe { _mm_loadu_si128(from.cast()) };
        _mm_test_epi8_mask(bytes, bytes)
    }

    strips!("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl", 8);
}

/// 256-bit vectors, of which there are 16.
pub(super) mod avx2 {
    use std::arch::x86_64::*;

    use crate::kernels::chain::strip::{Instruction, Location, Opcode, Program, SLOT, Sources};

    type Vector = __m256;
    type Mask = __m256;
    const LANES: usize = 8;

    macro_rules! functions {
        ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block)*) => {$(
            #[inline]
            #[target_feature(enable = "avx2")]
            fn $name($($argument: $type),*) -> $result $body
        )*};
    }

    functions! {
        splat(x: f32) -> Vector { _mm256_set1_ps(x) }
        add(a: Vector, b: Vector) -> Vector { _mm256_add_ps(a, b) }
        sub(a: Vector, b: Vector) -> Vector { _mm256_sub_ps(a, b) }
        mul(a: Vector, b: Vector) -> Vector { _mm256_mul_ps(a, b) }
        div(a: Vector, b: Vector) -> Vector { _mm256_div_ps(a, b) }
        root(a: Vector) -> Vector { _mm256_sqrt_ps(a) }
        negate(a: Vector) -> Vector { _mm256_xor_ps(a, splat(-0.0)) }
        absolute(a: Vector) -> Vector { _mm256_andnot_ps(splat(-0.0), a) }
        // Of NaN and of equal numbers these give the second.
        clip(a: Vector, low: Vector, high: Vector) -> Vector { _mm256_min_ps(high, _mm256_max_ps(low, a)) }
        no_mask() -> Mask { splat(0.0) }
        or(a: Mask, b: Mask) -> Mask { _mm256_or_ps(a, b) }
        choose(mask: Mask, a: Vector, b: Vector) -> Vector { _mm256_blendv_ps(b, a, mask) }
        nan(a: Vector) -> Mask { _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a) }
        equal(a: Vector, b: Vector) -> Mask { _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b) }
        not_equal(a: Vector, b: Vector) -> Mask { _mm256_cmp_ps::<_CMP_NEQ_UQ>(a, b) }
        less(a: Vector, b: Vector) -> Mask { _mm256_cmp_ps::<_CMP_LT_OQ>(a, b) }
        less_equal(a: Vector, b: Vector) -> Mask { _mm256_cmp_ps::<_CMP_LE_OQ>(a, b) }
        greater(a: Vector, b: Vector) -> Mask { _mm256_cmp_ps::<_CMP_GT_OQ>(a, b) }
        greater_equal(a: Vector, b: Vector) -> Mask { _mm256_cmp_ps::<_CMP_GE_OQ>(a, b) }
        mask_splat(x: u8) -> Mask { _mm256_castsi256_ps(_mm256_set1_epi32(-i32::from(x != 0))) }
    }

    /// # Safety
    ///
    /// So many elements are there.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(from: *const f32) -> Vector {
        // SAFETY: passed on.
        unsafe { _mm256_loadu_ps(from) }
    }

    /// # Safety
    ///
    /// There is room for so many elements.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store(to: *mut f32, a: Vector) {
        // SAFETY: passed on.
        unsafe { _mm256_storeu_ps(to, a) }
    }

    /// # Safety
    ///
    /// So many truth values are there.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn mask_of(from: *const u8) -> Mask {
        // SAFETY: passed on.
        let bytes = unsafe { _mm_loadl_epi64(from.cast()) };
        let wide = _mm256_cvtepu8_epi32(bytes);
        _mm256_castsi256_ps(_mm256_cmpgt_epi32(wide, _mm256_setzero_si256()))
    }

    strips!("avx2,fma", 4);
}
