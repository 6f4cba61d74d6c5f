//! Random numbers: range and places. Properties check their distribution.

use millstream_core::Distribution;

use super::FLOATS;
use crate::{Case, CaseBuilder, View, ops};

pub(super) fn cases() -> Vec<Case> {
    let distributions = [
        Distribution::Uniform { low: 0.0, high: 1.0 },
        Distribution::Uniform { low: -3.0, high: 5.0 },
        Distribution::Uniform { low: 2.5, high: 2.5 },
        Distribution::Normal { mean: 0.0, deviation: 1.0 },
        Distribution::Normal { mean: 4.0, deviation: 0.25 },
        Distribution::Normal { mean: -2.0, deviation: 0.0 },
    ];
    let shapes: [&[usize]; 6] = [&[], &[1], &[67], &[9, 7], &[2, 1, 2, 3, 1, 2, 1, 2], &[3, 0]];
    let mut cases = Vec::new();
    for dtype in FLOATS {
        for distribution in distributions {
            for shape in shapes {
                for view in View::WRITABLE {
                    let op = ops::random(distribution, (42, 7), dtype, shape);
                    let name = format!("random/{dtype}/{distribution:?}-{shape:?}-{view:?}");
                    cases.push(CaseBuilder::new(name, op).outputs(&[view]).build());
                }
            }
        }
    }
    cases
}
