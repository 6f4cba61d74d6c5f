//! Random numbers: range and places. What they are together is judged by properties.

use millstream_core::Distribution;

use super::FLOATS;
use crate::{Case, CaseBuilder, Spec, View};

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
                    let spec = Spec::Random { distribution, seed: 42, offset: 7 };
                    let name = format!("random/{dtype}/{distribution:?}-{shape:?}-{view:?}");
                    cases.push(
                        CaseBuilder::new(name, spec).output(view.layout(dtype, shape)).build(),
                    );
                }
            }
        }
    }
    cases
}
