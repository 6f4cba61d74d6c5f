//! Views, broadcasting and products against a model that is nothing but indices.

use millstream_core::{DType, Device};
use millstream_cpu as _;
use millstream_nn::Tensor;
use proptest::prelude::*;

/// A tensor as a list of values in row-major order.
#[derive(Clone, Debug)]
struct Naive {
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl Naive {
    /// A tensor of another shape, with the element of this one that each place comes from.
    fn pick(&self, shape: &[usize], from: impl Fn(&[usize]) -> Vec<usize>) -> Naive {
        let values = places(shape).map(|place| self.at(&from(&place))).collect();
        Naive { shape: shape.to_vec(), values }
    }

    fn at(&self, place: &[usize]) -> f32 {
        let index = place.iter().zip(&self.shape).fold(0, |index, (at, size)| index * size + at);
        self.values[index]
    }
}

fn places(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let shape = shape.to_vec();
    (0..shape.iter().product()).map(move |mut index: usize| {
        let mut place = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            place[axis] = index % shape[axis];
            index /= shape[axis];
        }
        place
    })
}

fn both(shape: &[usize]) -> (Tensor, Naive) {
    let values: Vec<f32> = (0..shape.iter().product::<usize>()).map(|value| value as f32).collect();
    let tensor = Tensor::from_slice(&values, shape, &Device::cpu().unwrap()).unwrap();
    (tensor, Naive { shape: shape.to_vec(), values })
}

/// Applies one change to both, chosen by a few numbers.
fn change(tensor: &Tensor, naive: &Naive, [kind, a, b, c]: [usize; 4]) -> (Tensor, Naive) {
    let rank = naive.shape.len();
    let mut shape = naive.shape.clone();
    match kind % 7 {
        0 if rank > 0 => {
            let (a, b) = (a % rank, b % rank);
            shape.swap(a, b);
            let swapped = |place: &[usize]| {
                let mut place = place.to_vec();
                place.swap(a, b);
                place
            };
            (tensor.transpose(a, b).unwrap(), naive.pick(&shape, swapped))
        }
        1 if rank > 0 => {
            let axis = a % rank;
            let start = b % (shape[axis] + 1);
            let (end, step) = (shape[axis], 1 + c % 3);
            shape[axis] = (end - start).div_ceil(step);
            let moved = |place: &[usize]| {
                let mut place = place.to_vec();
                place[axis] = start + place[axis] * step;
                place
            };
            (tensor.slice_by(axis, start..end, step).unwrap(), naive.pick(&shape, moved))
        }
        2 if rank < 5 => {
            let axis = a % (rank + 1);
            shape.insert(axis, 1);
            let dropped = |place: &[usize]| [&place[..axis], &place[axis + 1..]].concat();
            (tensor.unsqueeze(axis).unwrap(), naive.pick(&shape, dropped))
        }
        3 if rank > 0 && shape[a % rank] > 0 => {
            let axis = a % rank;
            let index = b % shape[axis];
            shape.remove(axis);
            let inserted = |place: &[usize]| [&place[..axis], &[index], &place[axis..]].concat();
            (tensor.select(axis, index).unwrap(), naive.pick(&shape, inserted))
        }
        4 if rank < 5 && naive.values.len() < 300 => {
            let front = 1 + a % 3;
            shape.insert(0, front);
            let dropped = |place: &[usize]| place[1..].to_vec();
            (tensor.broadcast_to(&shape).unwrap(), naive.pick(&shape, dropped))
        }
        5 if rank > 1 => {
            let axis = a % (rank - 1);
            let joined = shape[axis] * shape[axis + 1];
            shape.splice(axis..axis + 2, [joined]);
            let flat = Naive { shape, values: naive.values.clone() };
            (tensor.flatten(axis, axis + 1).unwrap(), flat)
        }
        6 if rank > 0 => {
            let axis = a % rank;
            let outer = (1..=shape[axis])
                .rev()
                .find(|by| shape[axis].is_multiple_of(*by) && *by <= 1 + b % 4);
            let outer = outer.unwrap_or(1);
            let inner = shape[axis] / outer;
            shape.splice(axis..=axis, [outer, inner]);
            if shape.len() > 6 {
                return (tensor.clone(), naive.clone());
            }
            let split = Naive { shape: shape.clone(), values: naive.values.clone() };
            (tensor.reshape(&shape).unwrap(), split)
        }
        _ => (tensor.clone(), naive.clone()),
    }
}

fn shapes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0usize..5, 0..4)
}

fn changes() -> impl Strategy<Value = Vec<[usize; 4]>> {
    prop::collection::vec(prop::array::uniform4(0usize..60), 0..8)
}

/// The naive shape that two broadcast to.
fn common(one: &[usize], other: &[usize]) -> Option<Vec<usize>> {
    let rank = one.len().max(other.len());
    let size = |shape: &[usize], axis: usize| {
        (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis])
    };
    (0..rank)
        .map(|axis| match (size(one, axis), size(other, axis)) {
            (a, b) if a == b || b == 1 => Some(a),
            (1, b) => Some(b),
            _ => None,
        })
        .collect()
}

fn stretched(place: &[usize], shape: &[usize]) -> Vec<usize> {
    let skipped = place.len() - shape.len();
    place[skipped..].iter().zip(shape).map(|(&at, &size)| if size == 1 { 0 } else { at }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn views_show_the_elements_they_should(shape in shapes(), changes in changes()) {
        let (mut tensor, mut naive) = both(&shape);
        for step in changes {
            (tensor, naive) = change(&tensor, &naive, step);
            prop_assert_eq!(tensor.shape(), &naive.shape[..]);
        }
        prop_assert_eq!(tensor.to_vec::<f32>().unwrap(), &naive.values[..]);
        let dense = tensor.contiguous().unwrap();
        prop_assert!(dense.is_contiguous());
        prop_assert_eq!(dense.to_vec::<f32>().unwrap(), &naive.values[..]);
        prop_assert_eq!(tensor.reshape(&[-1]).unwrap().to_vec::<f32>().unwrap(), naive.values);
    }

    #[test]
    fn operands_broadcast_as_in_numpy(
        first in shapes(),
        second in shapes(),
        first_changes in changes(),
        second_changes in changes(),
    ) {
        let (mut a, mut naive_a) = both(&first);
        let (mut b, mut naive_b) = both(&second);
        for step in first_changes {
            (a, naive_a) = change(&a, &naive_a, step);
        }
        for step in second_changes {
            (b, naive_b) = change(&b, &naive_b, step);
        }
        let result = (&a * &b).and_then(|product| product + 1.0);
        match common(&naive_a.shape, &naive_b.shape) {
            None => prop_assert!(result.is_err()),
            Some(shape) => {
                let result = result.unwrap();
                prop_assert_eq!(result.shape(), &shape[..]);
                let expected: Vec<f32> = places(&shape)
                    .map(|place| {
                        let left = naive_a.at(&stretched(&place, &naive_a.shape));
                        left * naive_b.at(&stretched(&place, &naive_b.shape)) + 1.0
                    })
                    .collect();
                prop_assert_eq!(result.to_vec::<f32>().unwrap(), expected);
            }
        }
    }

    #[test]
    fn pieces_join_to_the_whole(
        shape in prop::collection::vec(0usize..5, 1..4),
        axis in 0usize..4,
        size in 1usize..4,
    ) {
        let (tensor, naive) = both(&shape);
        let axis = axis % shape.len();
        for pieces in [tensor.split(size, axis).unwrap(), tensor.chunk(size, axis).unwrap()] {
            if !pieces.is_empty() {
                let whole = Tensor::cat(&pieces, axis).unwrap();
                prop_assert_eq!(whole.to_vec::<f32>().unwrap(), &naive.values[..]);
            }
        }
    }

    #[test]
    fn sums_over_any_axes(shape in shapes(), changes in changes(), axes in 0usize..64) {
        let (mut tensor, mut naive) = both(&shape);
        for step in changes {
            (tensor, naive) = change(&tensor, &naive, step);
        }
        let axes: Vec<usize> = (0..naive.shape.len()).filter(|axis| axes >> axis & 1 == 1).collect();
        let mut kept = naive.shape.clone();
        axes.iter().for_each(|&axis| kept[axis] = 1);
        let mut expected = vec![0f64; kept.iter().product()];
        for place in places(&naive.shape) {
            let index = place.iter().zip(&kept).fold(0, |index, (&at, &size)| {
                index * size + if size == 1 { 0 } else { at }
            });
            expected[index] += f64::from(naive.at(&place));
        }
        let sum = tensor.sum(&axes[..], true).unwrap();
        prop_assert_eq!(sum.shape(), &kept[..]);
        let sum = sum.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
        prop_assert_eq!(sum, expected);
        let rank = naive.shape.len() - axes.len();
        prop_assert_eq!(tensor.sum(&axes[..], false).unwrap().rank(), rank);
    }
}
