use millstream_core::{Command, DType, Layout};

use super::best;
use crate::kernels::shared::operand::Input;
use crate::kernels::shared::testing::{Tensor, assert_same_bits_in_any_order, noise, run};
use crate::kernels::shared::walk::Walk;

fn top(values: &[f32], k: usize, largest: bool, sorted: bool) -> (Vec<f32>, Vec<i64>) {
    let src = Tensor::new(&[values.len()], values);
    let (found, places) = (Tensor::output(DType::F32, &[k]), Tensor::output(DType::I64, &[k]));
    run(Command::top_k(found.operand(), places.operand(), src.operand(), 0, largest, sorted));
    (found.values(), places.values())
}

#[test]
fn ties_go_to_the_lower_index_and_nan_is_largest() {
    let values = [1.0, 3.0, 2.0, 3.0, f32::NAN, 1.0];
    let (found, places) = top(&values, 4, true, true);
    assert!(found[0].is_nan());
    assert_eq!((&found[1..], &places[..]), (&[3.0, 3.0, 2.0][..], &[4, 1, 3, 2][..]));
    assert_eq!(top(&values, 3, false, true), (vec![1.0, 1.0, 2.0], vec![0, 5, 2]));
    assert_eq!(top(&values, 6, false, true).1, [0, 5, 2, 1, 3, 4]);
}

#[test]
fn unsorted_results_are_in_the_order_of_their_indices() {
    let (found, places) = top(&[5.0, 1.0, 9.0, 7.0], 2, true, false);
    assert_eq!((found, places), (vec![9.0, 7.0], vec![2, 3]));
    assert_eq!(top(&[5.0, 1.0, 9.0, 7.0], 0, true, false), (vec![], vec![]));
}

#[test]
fn any_number_of_elements_agrees_with_a_full_sort() {
    let values: Vec<f32> = noise(1300, 3).iter().map(|x| (x * 50.0).round() as f32).collect();
    for largest in [true, false] {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&a, &b| {
            let by_value = values[a].total_cmp(&(values[b] + 0.0));
            (if largest { by_value.reverse() } else { by_value }).then(a.cmp(&b))
        });
        for k in [1, 31, 32, 33, 500, 1300] {
            let (found, places) = top(&values, k, largest, true);
            let values: Vec<_> = order[..k].iter().map(|&i| values[i]).collect();
            assert_eq!(found, values);
            if !values.contains(&0.0) {
                let expected: Vec<_> = order[..k].iter().map(|&i| i as i64).collect();
                assert_eq!(places, expected);
            }
        }
    }
}

/// All ties, all NaN, and every element better than those before it, over rows that are longer than what
/// is kept.
#[test]
fn the_best_are_right_when_not_all_candidates_are_kept() {
    const LEN: usize = 40_000;
    let rows: [fn(usize) -> f32; 5] = [
        |_| 1.0,
        |_| f32::NAN,
        |i| i as f32,
        |i| -(i as f32),
        |i| if i % 3 == 0 { f32::NAN } else { (i * 7919 % 1009) as f32 - 500.0 },
    ];
    for row in rows {
        let values: Vec<f32> = (0..LEN).map(row).collect();
        for largest in [true, false] {
            let mut order: Vec<usize> = (0..LEN).collect();
            order.sort_by(|&a, &b| {
                // NaN is the largest number.
                let key = |i: usize| (values[i].is_nan(), values[i]);
                let by_value = key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal);
                (if largest { by_value.reverse() } else { by_value }).then(a.cmp(&b))
            });
            for k in [33, 1000, 19_000, LEN] {
                let mut expected: Vec<i64> = order[..k].iter().map(|&i| i as i64).collect();
                assert_eq!(top(&values, k, largest, true).1, expected);
                expected.sort_unstable();
                assert_eq!(top(&values, k, largest, false).1, expected);
            }
        }
    }
}

#[test]
fn memory_is_bounded_by_what_is_asked_for() {
    let layout = Layout::contiguous(DType::F32, &[1]).unwrap().broadcast_to(&[1 << 24]).unwrap();
    let src = Tensor::uninit(layout);
    let row = Walk::in_order([&layout]);
    // SAFETY: the operand is one element of host memory.
    let input = unsafe { Input::<f32>::apart(&src.operand(), 0) };
    let mut found = Vec::with_capacity(100);
    let room = found.capacity();
    // SAFETY: the row is one element, which nobody writes.
    unsafe { best(&row, &input, 40, true, &mut found) };
    assert_eq!((found.len(), found.capacity()), (40, room));
    assert!(found.iter().all(|entry| entry.1 < 40));
}

#[test]
fn other_axes_and_layouts_work() {
    let src = Tensor::new(&[3, 2], &[1i64, 9, 5, 2, 3, 4]);
    let layout = |dtype| Layout::strided(dtype, &[2, 2], &[1, 3], 1).unwrap();
    let (found, places) = (Tensor::uninit(layout(DType::I64)), Tensor::uninit(layout(DType::I64)));
    run(Command::top_k(found.operand(), places.operand(), src.operand(), 0, true, true));
    assert_eq!(found.values::<i64>(), [5, 9, 3, 4]);
    assert_eq!(places.values::<i64>(), [1, 0, 2, 2]);
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    let src = Tensor::floats(DType::F16, &[200, 401], &noise(200 * 401, 1));
    for k in [5, 60] {
        let found = Tensor::output(DType::F16, &[200, k]);
        let places = Tensor::output(DType::I64, &[200, k]);
        let command =
            Command::top_k(found.operand(), places.operand(), src.operand(), 1, true, true);
        assert_same_bits_in_any_order(&command.unwrap(), &places);
    }
}
