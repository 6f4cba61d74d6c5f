//! Attention.

use millstream_core::{Alignment, AttentionParams, DType, KeyWindow, Op};

use super::FLOATS;
use crate::{Case, CaseBuilder, Generator, Value, View};

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
    cases.extend(windows());
    cases
}

const START: Alignment = Alignment::Start { offset: 0 };

/// Where queries stand, and how far they see to the left and right.
const WINDOWS: &[(Alignment, Option<u32>, Option<u32>)] = &[
    (START, None, Some(0)),
    (Alignment::Start { offset: 3 }, Some(1), Some(0)),
    (Alignment::Start { offset: -2 }, Some(2), Some(1)),
    (Alignment::End, Some(2), None),
    (Alignment::End, Some(0), Some(3)),
    (Alignment::Start { offset: i64::MIN }, None, Some(u32::MAX)),
    (Alignment::Start { offset: i64::MAX }, Some(u32::MAX), None),
];

/// What each query sees by where it stands, with and without key lengths and a soft cap.
fn windows() -> Vec<Case> {
    let mut cases = Vec::new();
    let sizes: Sizes = [3, 4, 2, 5, 7, 3, 4];
    let new = |window, softcap| AttentionParams { window, softcap, ..AttentionParams::new(0.375) };
    for dtype in FLOATS {
        for &(align, left, right) in WINDOWS {
            let params = new(KeyWindow { align, left, right }, None);
            let views = VIEWS[usize::from(left.is_some())];
            cases.push(case_of(params, dtype, sizes, Kind::None, None, views));
        }
        for lengths in [DType::I32, DType::I64] {
            let params = new(KeyWindow::causal(Alignment::End), Some(0.75));
            cases.push(case_of(params, dtype, sizes, Kind::Added, Some(lengths), VIEWS[1]));
            cases.push(case_of(params, dtype, sizes, Kind::None, Some(lengths), VIEWS[2]));
            cases.push(case_of(
                new(KeyWindow::ALL, None),
                dtype,
                sizes,
                Kind::Seen,
                Some(lengths),
                VIEWS[0],
            ));
        }
    }
    let end = |left| KeyWindow { align: Alignment::End, left: Some(left), right: Some(0) };
    for (dtype, lengths) in [(DType::F32, DType::I64), (DType::F16, DType::I32)] {
        // Several blocks and tiles, of which some see nothing.
        for sizes in [[2, 2, 1, 70, 157, 64, 64], [3, 2, 2, 40, 300, 16, 16]] {
            let params = new(end(20), Some(1.5));
            cases.push(case_of(params, dtype, sizes, Kind::None, None, VIEWS[0]));
            cases.push(case_of(params, dtype, sizes, Kind::Seen, Some(lengths), VIEWS[0]));
            let start = new(KeyWindow { align: START, left: Some(9), right: Some(4) }, None);
            cases.push(case_of(start, dtype, sizes, Kind::None, Some(lengths), VIEWS[0]));
            let all = new(KeyWindow::ALL, None);
            cases.push(case_of(all, dtype, sizes, Kind::None, Some(lengths), VIEWS[0]));
        }
        // One query and a cache.
        for window in [KeyWindow::ALL, end(150)] {
            let params = new(window, None);
            let sizes = [4, 4, 2, 1, 400, 64, 64];
            cases.push(case_of(params, dtype, sizes, Kind::None, Some(lengths), VIEWS[0]));
        }
    }
    cases
}

fn case(dtype: DType, sizes: Sizes, causal: bool, kind: Kind, views: [View; 5]) -> Case {
    let params = AttentionParams::new(0.375).causal_if(causal);
    case_of(params, dtype, sizes, kind, None, views)
}

/// Key lengths of a batch: in between, too long, and none, and less.
fn length(batch: usize, keys: usize) -> i64 {
    [keys as i64 * 2 / 3, keys as i64 + 5, 0, -3][batch % 4]
}

fn case_of(
    params: AttentionParams,
    dtype: DType,
    sizes: Sizes,
    kind: Kind,
    lengths: Option<DType>,
    views: [View; 5],
) -> Case {
    let [batch, heads, key_heads, queries, keys, size, value_size] = sizes;
    let KeyWindow { align, left, right } = params.window;
    let seen = format!("{align:?}-{left:?}-{right:?}-{lengths:?}-{:?}", params.softcap);
    let name = format!("attention/{dtype}/{sizes:?}-{seen}-{kind:?}-{views:?}");
    let mut generator = Generator::named(&name);
    let mut values =
        |dtype, shape: &[usize]| generator.elements(dtype, shape.iter().product(), -1.5, 1.5);
    let (query, key) = ([batch, heads, queries, size], [batch, key_heads, keys, size]);
    let value = [batch, key_heads, keys, value_size];
    let (mask, has_lengths) = (kind != Kind::None, lengths.is_some());
    let op = Op::Attention { params: AttentionParams { mask, lengths: has_lengths, ..params } };
    // Keys and values beyond the length are no numbers.
    let mut cut = |shape: &[usize; 4]| {
        let mut values = values(dtype, shape);
        let rows = values.chunks_mut(shape[3].max(1)).enumerate().filter(|_| has_lengths);
        for (row, values) in rows {
            if (row % keys) as i64 >= length(row / keys / key_heads, keys) {
                values.fill(Value::Float(f64::NAN));
            }
        }
        values
    };
    let (key_values, value_values) = (cut(&key), cut(&value));
    let case = CaseBuilder::new(name, op)
        .input(views[1].layout(dtype, &query), &values(dtype, &query))
        .input(views[2].layout(dtype, &key), &key_values)
        .input(views[3].layout(dtype, &value), &value_values);
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
    let case = match lengths {
        Some(dtype) => {
            let given: Vec<_> =
                (0..batch).map(|batch| Value::Int(length(batch, keys).into())).collect();
            case.input(View::Stepped.layout(dtype, &[batch]), &given)
        }
        None => case,
    };
    case.outputs(&views[..1]).build()
}
