//! What only the data knows the size of.

use millstream_core::{DType, Op};

use super::{F32, Names, input, row};
use crate::spoil::Good;

const COUNT: (&str, &str, Names) = ("count", "type rank size", &[]);

const fn output(name: &'static str) -> (&'static str, &'static str, Names) {
    (name, "type rank size", &[])
}

pub fn nonzero() -> Good {
    let src = input("src", F32, &[2, 3], "", &[]);
    row(Op::NonZero, [output("indices"), COUNT], [src], [])
}

pub fn compress() -> Good {
    let op = |axis| Op::Compress { axis };
    row(
        op(Some(1)),
        [output("dst"), COUNT],
        [
            input("src", F32, &[4, 3], "", &["axis", "condition"]),
            input("condition", DType::Bool, &[3], "type rank size", &[]),
        ],
        [("axis", op(Some(2))), ("axis", op(Some(u8::MAX)))],
    )
}

pub fn unique() -> Good {
    let op = |axis| Op::Unique { axis, sorted: true };
    let names = ["values", "first", "inverse", "counts"].map(output);
    let [values, first, inverse, counts] = names;
    row(
        op(Some(1)),
        [values, first, inverse, counts, COUNT],
        [input("src", F32, &[4, 3], "", &["axis"])],
        [("axis", op(Some(2))), ("axis", op(Some(u8::MAX)))],
    )
}

pub fn suppress() -> Good {
    let op = |overlap, score| Op::NonMaxSuppression { most: 5, overlap, score, centered: false };
    row(
        op(0.5, None),
        [output("selected"), COUNT],
        [
            input("boxes", F32, &[2, 6, 4], "type rank size", &["scores"]),
            input("scores", F32, &[2, 3, 6], "type rank size", &[]),
        ],
        [("overlap", op(f32::NAN, None)), ("score", op(0.5, Some(f32::NAN)))],
    )
}
