//! Attention.

use millstream_core::DType;

use super::FLOATS;
use crate::{Case, CaseBuilder, Generator, Value, View, ops};

/// Batch, heads, key heads, queries, keys, size and value size.
type Sizes = [usize; 7];

const SIZES: &[Sizes] = &[
    [1, 1, 1, 1, 1, 1, 1],
    [2, 4, 2, 5, 7, 3, 4],
    [1, 3, 1, 9, 4, 8, 2],
    [2, 2, 2, 1, 33, 16, 16],
    [1, 2, 1, 33, 17, 5, 31],
    [1, 2, 2, 4, 0, 3, 2],
    [2, 2, 2, 0, 4, 3, 2],
    [1, 2, 2, 4, 4, 0, 2],
    [1, 2, 2, 4, 4, 3, 0],
    [0, 2, 2, 4, 4, 3, 2],
];

/// Enough queries and keys that a device takes them in tiles: several tiles, the last of them not whole, with heads
/// of many sizes. The index is that of the views.
const TILED: &[(Sizes, bool, Kind, usize)] = &[
    ([1, 2, 1, 70, 157, 64, 64], false, Kind::None, 0),
    ([1, 1, 1, 33, 131, 128, 120], true, Kind::Added, 0),
    ([1, 2, 1, 41, 137, 40, 70], true, Kind::Seen, 1),
    ([2, 2, 2, 65, 134, 24, 32], false, Kind::Added, 2),
    // The first queries see nothing.
    ([1, 2, 2, 200, 137, 32, 32], true, Kind::Seen, 0),
];

/// The same with as many heads as a large device takes at once.
const MANY_HEADS: &[(DType, Sizes, Kind, usize)] = &[
    (DType::F32, [9, 4, 2, 33, 128, 16, 8], Kind::None, 0),
    (DType::BF16, [3, 11, 1, 33, 130, 64, 64], Kind::Added, 0),
    (DType::F32, [7, 4, 2, 34, 131, 128, 120], Kind::Added, 0),
    (DType::F16, [7, 2, 2, 41, 137, 40, 70], Kind::Seen, 1),
    // Enough for larger groups.
    (DType::F16, [27, 4, 1, 33, 128, 16, 8], Kind::None, 2),
];

/// Output, query, key, value and mask.
const VIEWS: [[View; 5]; 3] = [
    [View::Dense; 5],
    [View::Mixed, View::Transposed, View::Stepped, View::Shifted, View::Stepped],
    [View::Transposed, View::Stepped, View::Transposed, View::Mixed, View::Repeated],
];

/// What a mask may be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    None,
    /// Truth values for every head.
    Seen,
    /// Numbers shared by all heads.
    Added,
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in FLOATS {
        for &sizes in SIZES {
            for causal in [false, true] {
                for kind in [Kind::None, Kind::Seen, Kind::Added] {
                    for views in VIEWS {
                        cases.push(case(dtype, sizes, causal, kind, views));
                    }
                }
            }
        }
    }
    for dtype in [DType::F32, DType::F16] {
        for causal in [false, true] {
            let sizes = [1, 2, 1, 40, 140, 16, 16];
            cases.push(case(dtype, sizes, causal, Kind::None, VIEWS[0]));
            cases.push(case(dtype, sizes, causal, Kind::Seen, VIEWS[0]));
            // Heads as models have them, and some that are larger.
            for sizes in [[1, 4, 2, 9, 70, 64, 64], [1, 1, 1, 3, 33, 160, 150]] {
                cases.push(case(dtype, sizes, causal, Kind::None, VIEWS[0]));
                cases.push(case(dtype, sizes, causal, Kind::Added, VIEWS[1]));
            }
        }
    }
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for &(sizes, causal, kind, views) in TILED {
            cases.push(case(dtype, sizes, causal, kind, VIEWS[views]));
        }
    }
    for &(dtype, sizes, kind, views) in MANY_HEADS {
        cases.push(case(dtype, sizes, true, kind, VIEWS[views]));
    }
    cases
}

fn case(dtype: DType, sizes: Sizes, causal: bool, kind: Kind, views: [View; 5]) -> Case {
    let [batch, heads, key_heads, queries, keys, size, value_size] = sizes;
    let name = format!("attention/{dtype}/{sizes:?}-{causal}-{kind:?}-{views:?}");
    let mut generator = Generator::named(&name);
    let mut values =
        |dtype, shape: &[usize]| generator.elements(dtype, shape.iter().product(), -1.5, 1.5);
    let (query, key) = ([batch, heads, queries, size], [batch, key_heads, keys, size]);
    let value = [batch, key_heads, keys, value_size];
    let op = ops::attention(0.375, causal, kind != Kind::None);
    let case = CaseBuilder::new(name, op)
        .input(views[1].layout(dtype, &query), &values(dtype, &query))
        .input(views[2].layout(dtype, &key), &values(dtype, &key))
        .input(views[3].layout(dtype, &value), &values(dtype, &value));
    let case = match kind {
        Kind::None => case,
        Kind::Seen => {
            let shape = [batch, heads, queries, keys];
            let mut seen = values(DType::Bool, &shape);
            // One query that sees nothing.
            seen.iter_mut().take(keys).for_each(|seen| *seen = Value::Int(0));
            case.input(views[4].layout(DType::Bool, &shape), &seen)
        }
        Kind::Added => {
            let shape = [queries, keys];
            let mut added = values(dtype, &shape);
            for (at, added) in added.iter_mut().enumerate() {
                if at < keys || at % 5 == 3 {
                    *added = Value::Float(f64::NEG_INFINITY);
                }
            }
            case.input(views[4].layout(dtype, &shape), &added)
        }
    };
    case.outputs(&views[..1]).build()
}
