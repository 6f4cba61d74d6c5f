//! The micro-kernel: the innermost loops.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

#[cfg(target_arch = "x86_64")]
use crate::kernels::shared::simd::Isa;

/// Columns of a panel.
pub(super) const WIDTH: usize = 32;

/// Steps of k that are multiplied together.
pub(super) const STEPS: usize = 4;

/// `sums += lhs × rhs` over packed operands.
#[derive(Clone, Copy)]
pub(super) struct MicroTiles {
    pub rows: usize,
    pub columns: usize,
    /// Groups of [`STEPS`] steps of k.
    pub groups: usize,
    /// Rows of `groups · STEPS` bytes.
    pub lhs: *const u8,
    /// Panels of `groups` times [`WIDTH`] columns of [`STEPS`] bytes.
    pub rhs: *const i8,
    /// Rows with room for whole panels.
    pub sums: *mut i32,
    /// Distance between rows of sums.
    pub stride: usize,
}

impl MicroTiles {
    /// Adds the products to the sums, which wrap around.
    ///
    /// # Safety
    ///
    /// The pointers are valid for the sizes given at each, and nobody else touches the sums.
    pub unsafe fn add(self) {
        // SAFETY: passed on; the features were detected.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            {
                match Isa::detect() {
                    Isa::Avx512 if is_x86_feature_detected!("avx512vnni") => {
                        return self.add_with_vnni();
                    }
                    Isa::Avx512 | Isa::Avx2 => return self.add_with_avx2(),
                    Isa::Portable => {}
                }
            }
            self.add_portably();
        }
    }

    /// Calls `body` for all micro-tiles of up to `ROWS` rows: `body(row, rows, panel)`.
    #[inline(always)]
    fn each<const ROWS: usize>(&self, mut body: impl FnMut(usize, usize, usize)) {
        for panel in 0..self.columns.div_ceil(WIDTH) {
            for row in (0..self.rows).step_by(ROWS) {
                body(row, ROWS.min(self.rows - row), panel);
            }
        }
    }

    /// The panel of the rhs, and the sums of a micro-tile.
    #[inline(always)]
    unsafe fn pointers(&self, row: usize, panel: usize) -> (*const u8, *const i8, *mut i32) {
        // SAFETY: the row and the panel belong to the product.
        unsafe {
            (
                self.lhs.add(row * self.groups * STEPS),
                self.rhs.add(panel * self.groups * STEPS * WIDTH),
                self.sums.add(row * self.stride + panel * WIDTH),
            )
        }
    }

    /// # Safety
    ///
    /// As for [`add`](Self::add).
    #[inline(always)]
    pub unsafe fn add_portably(&self) {
        self.each::<1>(|row, _, panel| {
            // SAFETY: passed on.
            unsafe {
                let (lhs, rhs, to) = self.pointers(row, panel);
                let mut sums = to.cast::<[i32; WIDTH]>().read();
                for group in 0..self.groups {
                    let bytes = lhs.add(group * STEPS).cast::<[u8; STEPS]>().read();
                    let values = &*rhs.add(group * STEPS * WIDTH).cast::<[[i8; STEPS]; WIDTH]>();
                    for (sum, values) in sums.iter_mut().zip(values) {
                        for (&lhs, &value) in bytes.iter().zip(values) {
                            *sum = sum.wrapping_add(i32::from(lhs) * i32::from(value));
                        }
                    }
                }
                to.cast::<[i32; WIDTH]>().write(sums);
            }
        });
    }

    /// Products of 16 bits, of which pairs are added in 32 bits: the instruction for bytes would saturate.
    ///
    /// # Safety
    ///
    /// As for [`add`](Self::add), and the CPU has AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    pub unsafe fn add_with_avx2(&self) {
        self.each::<3>(|row, rows, panel| {
            // SAFETY: passed on; no more rows are touched than there are.
            unsafe {
                match rows {
                    3 => self.avx2_micro_tile::<3>(row, panel),
                    2 => self.avx2_micro_tile::<2>(row, panel),
                    _ => self.avx2_micro_tile::<1>(row, panel),
                }
            }
        });
    }

    /// Computes some rows of a panel, in halves, so that the sums stay in registers.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn avx2_micro_tile<const ROWS: usize>(&self, row: usize, panel: usize) {
        const HALF: usize = WIDTH / 2;
        /// Columns of a register of products.
        const COLUMNS: usize = 4;
        let step = self.groups * STEPS;
        // SAFETY: the rows and the panel belong to the product, whose sums have room for whole panels;
        // loads and stores need no alignment.
        unsafe {
            let (lhs, rhs, to) = self.pointers(row, panel);
            for half in 0..2 {
                let (rhs, to) = (rhs.add(half * HALF * STEPS), to.add(half * HALF));
                // Two sums for each column, which are added at the end.
                let mut sums = [[_mm256_setzero_si256(); HALF / COLUMNS]; ROWS];
                for group in 0..self.groups {
                    let values = rhs.add(group * STEPS * WIDTH);
                    let rows: [__m256i; ROWS] = std::array::from_fn(|row| {
                        let four = lhs.add(row * step + group * STEPS).cast::<i32>();
                        let four = _mm_cvtsi32_si128(four.read_unaligned());
                        _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(four))
                    });
                    for part in 0..HALF / COLUMNS {
                        let bytes = _mm_loadu_si128(values.add(part * COLUMNS * STEPS).cast());
                        let values = _mm256_cvtepi8_epi16(bytes);
                        for (sums, &lhs) in sums.iter_mut().zip(&rows) {
                            let products = _mm256_madd_epi16(lhs, values);
                            sums[part] = _mm256_add_epi32(sums[part], products);
                        }
                    }
                }
                for (row, sums) in sums.iter().enumerate() {
                    let (pairs, _) = sums.as_chunks::<2>();
                    for (index, &[first, second]) in pairs.iter().enumerate() {
                        // Neighbors are added, and come as the halves of both registers in turn.
                        let turns = _mm256_hadd_epi32(first, second);
                        let found = _mm256_permute4x64_epi64::<0b11_01_10_00>(turns);
                        let to = to.add(row * self.stride + index * 2 * COLUMNS).cast::<__m256i>();
                        let all = _mm256_add_epi32(_mm256_loadu_si256(to), found);
                        _mm256_storeu_si256(to, all);
                    }
                }
            }
        }
    }

    /// # Safety
    ///
    /// As for [`add`](Self::add), and the CPU has AVX-512 VNNI.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub unsafe fn add_with_vnni(&self) {
        self.each::<8>(|row, rows, panel| {
            // SAFETY: passed on; no more rows are touched than there are.
            unsafe {
                let mut done = 0;
                while done < rows {
                    done += match rows - done {
                        8.. => self.vnni_micro_tile::<8>(row + done, panel),
                        4.. => self.vnni_micro_tile::<4>(row + done, panel),
                        2.. => self.vnni_micro_tile::<2>(row + done, panel),
                        _ => self.vnni_micro_tile::<1>(row + done, panel),
                    };
                }
            }
        });
    }

    /// Computes some rows of a panel, and says how many.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    unsafe fn vnni_micro_tile<const ROWS: usize>(&self, row: usize, panel: usize) -> usize {
        const HALF: usize = WIDTH / 2;
        let step = self.groups * STEPS;
        // SAFETY: the rows and the panel belong to the product, whose sums have room for whole panels;
        // loads and stores need no alignment.
        unsafe {
            let (lhs, rhs, to) = self.pointers(row, panel);
            let mut sums: [[_; 2]; ROWS] = std::array::from_fn(|row| {
                let to = to.add(row * self.stride);
                [_mm512_loadu_si512(to.cast()), _mm512_loadu_si512(to.add(HALF).cast())]
            });
            for group in 0..self.groups {
                let values = rhs.add(group * STEPS * WIDTH);
                let low = _mm512_loadu_si512(values.cast());
                let high = _mm512_loadu_si512(values.add(STEPS * HALF).cast());
                for (row, sums) in sums.iter_mut().enumerate() {
                    let bytes = lhs.add(row * step + group * STEPS).cast::<i32>();
                    let bytes = _mm512_set1_epi32(bytes.read_unaligned());
                    sums[0] = _mm512_dpbusd_epi32(sums[0], bytes, low);
                    sums[1] = _mm512_dpbusd_epi32(sums[1], bytes, high);
                }
            }
            for (row, &[low, high]) in sums.iter().enumerate() {
                let to = to.add(row * self.stride);
                _mm512_storeu_si512(to.cast(), low);
                _mm512_storeu_si512(to.add(HALF).cast(), high);
            }
        }
        ROWS
    }
}
