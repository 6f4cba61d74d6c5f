use super::*;
use crate::kernels::shared::simd::on_every_isa;
use crate::kernels::shared::testing::noise;

/// Every width and number of places, beside sums made one by one; two runs of taps.
#[test]
fn every_tile_makes_the_sums_that_it_says() {
    let (k, next, first, column) = (5, 9, 2, 3);
    let numbers = |count, seed| noise(count, seed).iter().map(|&x| x as f32).collect::<Vec<_>>();
    let seen = [numbers(400, 1), numbers(400, 2)];
    let weights = [numbers(900, 3), numbers(900, 4)];
    on_every_isa(|| {
        let isa = Isa::detect();
        let lanes = <f32 as PlaceElement>::lanes(isa);
        let k_stride = 8 * lanes + 7;
        let rest = |columns| <f32 as PlaceElement>::width_of(columns, isa);
        let rests = [rest(lanes), rest(lanes + lanes / 2), rest(2 * lanes)];
        for width in rests.into_iter().chain([Width::Four, Width::Eight]) {
            let columns = columns_of(width, lanes);
            for places in 1..=<f32 as PlaceElement>::max_places(width, isa) {
                let stride = columns + 1;
                let mut sums = vec![7.0; places * stride];
                let (from, by) = (seen.each_ref().map(|x| x.as_ptr()), weights.each_ref());
                let tile = PlaceTile {
                    places,
                    seen: &from,
                    first,
                    next,
                    weights: &by.map(|x| x.as_ptr()),
                    column,
                    k_stride,
                    k,
                    sums: sums.as_mut_ptr(),
                    stride,
                };
                // SAFETY: the lists are long enough for what the tile says, and the ISA was detected.
                unsafe { f32::sum_places(&tile, width, isa) };
                for (place, sums) in sums.chunks(stride).enumerate() {
                    for (index, &sum) in sums[..columns].iter().enumerate() {
                        let mut exact = 0.0;
                        for (seen, weights) in seen.iter().zip(&weights) {
                            for step in 0..k {
                                let x = seen[first + place * next + step];
                                let y = weights[column + step * k_stride + index];
                                exact += f64::from(x) * f64::from(y);
                            }
                        }
                        let error = (f64::from(sum) - exact).abs();
                        assert!(error < 1e-5, "{width:?}, place {place}, column {index}: {sum}");
                    }
                    assert_eq!(sums[columns], 7.0, "{width:?} wrote behind its columns");
                }
            }
        }
    });
}
