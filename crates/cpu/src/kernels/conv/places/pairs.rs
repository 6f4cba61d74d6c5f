//! Tiles of 24 channels: one register of 16 for each place, and one for 8 channels of two places.
//!
//! With two registers for each place a quarter of all lanes would be empty.

use std::arch::x86_64::*;

use super::{AHEAD, PlaceTile};

/// Lanes of the second place of a pair.
const SECOND: __mmask16 = 0xFF00;

/// Makes the sums of a tile of 1 to 16 places and 24 channels.
///
/// # Safety
///
/// As for [`PlaceElement::sum_places`](super::PlaceElement::sum_places), on a CPU with AVX-512.
pub(super) unsafe fn sum(tile: &PlaceTile<'_, f32>) {
    // SAFETY: passed on.
    unsafe {
        match tile.places.div_ceil(2) {
            1 => of_pairs::<1>(tile),
            2 => of_pairs::<2>(tile),
            3 => of_pairs::<3>(tile),
            4 => of_pairs::<4>(tile),
            5 => of_pairs::<5>(tile),
            6 => of_pairs::<6>(tile),
            7 => of_pairs::<7>(tile),
            8 => of_pairs::<8>(tile),
            other => unreachable!("a tile of {other} pairs"),
        }
    }
}

#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512vl")]
unsafe fn of_pairs<const PAIRS: usize>(tile: &PlaceTile<'_, f32>) {
    // Not known to the compiler, which would make a shuffle of two registers of what one masked instruction does.
    let second_place = std::hint::black_box(SECOND);
    // The last place stands twice where it has no second one: it is computed and stored twice.
    let place = |pair: usize, second: usize| (2 * pair + second).min(tile.places - 1);
    // SAFETY: sums, places and weights lie where the tile says; the last increments lead anywhere, for addresses that are
    // not read.
    unsafe {
        let zero = _mm512_setzero_ps();
        let (mut low, mut high) = ([[zero; 2]; PAIRS], [zero; PAIRS]);
        let last = (place(PAIRS - 1, 1) - 2 * (PAIRS - 1)) * tile.next;
        for (seen, weights) in tile.seen.iter().zip(tile.weights) {
            let (mut seen, mut weights) = (seen.add(tile.first), weights.add(tile.column));
            for _ in 0..tile.k {
                let wide = _mm512_loadu_ps(weights);
                let half = _mm512_broadcast_f32x8(_mm256_loadu_ps(weights.add(16)));
                let ahead = weights.wrapping_add(AHEAD * tile.k_stride);
                _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(16).cast());
                for pair in 0..PAIRS {
                    let at = seen.add(2 * pair * tile.next);
                    let behind = if pair == PAIRS - 1 { last } else { tile.next };
                    let first = _mm512_set1_ps(*at);
                    let second = _mm512_set1_ps(*at.add(behind));
                    let both = _mm512_mask_mov_ps(first, second_place, second);
                    low[pair][0] = _mm512_fmadd_ps(first, wide, low[pair][0]);
                    low[pair][1] = _mm512_fmadd_ps(second, wide, low[pair][1]);
                    high[pair] = _mm512_fmadd_ps(both, half, high[pair]);
                }
                seen = seen.wrapping_add(1);
                weights = weights.wrapping_add(tile.k_stride);
            }
        }
        for pair in 0..PAIRS {
            let halves =
                [_mm512_castps512_ps256(high[pair]), _mm512_extractf32x8_ps::<1>(high[pair])];
            for (second, half) in halves.into_iter().enumerate() {
                let to = tile.sums.add(place(pair, second) * tile.stride);
                _mm512_storeu_ps(to, low[pair][second]);
                _mm256_storeu_ps(to.add(16), half);
            }
        }
    }
}
