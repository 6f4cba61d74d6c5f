//! Functions of one element.

use millstream_core::{DType, Op, UnaryOp};

use super::elementwise::GEOMETRIES;
use super::{FLOATS, LARGE, TYPES};
use crate::generator::{special_values, subnormal_values};
use crate::{Case, CaseBuilder, Generator, Value, View};

/// Every function, with parameters where it has them.
pub(crate) const OPS: &[UnaryOp] = {
    use UnaryOp::*;
    &[
        Abs,
        Neg,
        Sign,
        Relu,
        Exp,
        Expm1,
        Log,
        Log1p,
        Log2,
        Sqrt,
        Rsqrt,
        Reciprocal,
        Square,
        Sin,
        Cos,
        Tan,
        Asin,
        Acos,
        Atan,
        Sinh,
        Cosh,
        Tanh,
        Asinh,
        Acosh,
        Atanh,
        Erf,
        Floor,
        Ceil,
        Round,
        Trunc,
        Sigmoid,
        HardSigmoid { alpha: 0.2, beta: 0.5 },
        HardSigmoid { alpha: 0.75, beta: -0.25 },
        HardSwish,
        Silu,
        Gelu,
        GeluTanh,
        Softplus,
        Softsign,
        Mish,
        LeakyRelu { slope: 0.01 },
        LeakyRelu { slope: 1.5 },
        Elu { alpha: 1.0 },
        Elu { alpha: 0.3 },
        Celu { alpha: 1.7 },
        Selu { alpha: 1.673_263_2, gamma: 1.050_701 },
        ThresholdedRelu { alpha: 1.0 },
        Shrink { lambda: 0.5, bias: 0.0 },
        Shrink { lambda: 1.5, bias: 0.75 },
        IsNan,
        IsInf { positive: true, negative: true },
        IsInf { positive: true, negative: false },
        IsInf { positive: false, negative: true },
        Not,
    ]
};

/// Where the function has a value.
pub(crate) fn domain(op: UnaryOp) -> (f64, f64) {
    use UnaryOp::*;
    match op {
        Log | Log2 | Sqrt | Rsqrt => (0.001, 30.0),
        Log1p => (-0.999, 30.0),
        Acosh => (1.0, 30.0),
        Asin | Acos | Atanh => (-1.0, 1.0),
        Tan => (-1.5, 1.5),
        Sin | Cos => (-100.0, 100.0),
        _ => (-6.0, 6.0),
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &op in OPS {
        let (low, high) = domain(op);
        for input in TYPES {
            let Some(output) = op.output(input) else { continue };
            let name = |part: &str| format!("unary/{op:?}/{input}/{part}");
            for geometry in GEOMETRIES {
                let name = name(geometry.name);
                let source = geometry.a.1.layout(input, geometry.a.0);
                let values = Generator::named(&name).elements(input, source.elements(), low, high);
                let case = CaseBuilder::new(name, Op::Unary { op })
                    .output(geometry.output.layout(output, geometry.shape));
                cases.push(case.input(source, &values).build());
            }
            let listed = |part: &str, values: &[Value]| {
                CaseBuilder::new(name(part), Op::Unary { op })
                    .input(View::Dense.layout(input, &[values.len()]), values)
                    .outputs(&[View::Shifted])
                    .build()
            };
            cases.push(listed("special", &special_values(input)));
            if input.is_float() {
                cases.push(listed("subnormal", &subnormal_values(input)));
            }
            if output == input {
                let values = Generator::named(&name("in-place")).elements(input, 63, low, high);
                for view in [View::Dense, View::Mixed] {
                    let case =
                        CaseBuilder::new(name(&format!("in-place-{view:?}")), Op::Unary { op });
                    let case = case.output(view.layout(input, &[9, 7]));
                    cases.push(case.in_place(&values).build());
                }
            }
        }
    }
    cases.extend(large());
    cases
}

fn large() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in FLOATS {
        for op in [UnaryOp::Exp, UnaryOp::Relu, UnaryOp::Gelu, UnaryOp::Tanh] {
            let name = format!("unary/{op:?}/{dtype}/large");
            let values = Generator::named(&name).elements(dtype, LARGE, -9.0, 9.0);
            let layout = View::Dense.layout(dtype, &[LARGE]);
            let case = CaseBuilder::new(name, Op::Unary { op }).input(layout, &values);
            cases.push(case.outputs(&[View::Dense]).build());
        }
    }
    let (output, input) =
        (View::Transposed.layout(DType::F32, &[317, 331]), View::Dense.layout(DType::F32, &[331]));
    let values = Generator::new(7).elements(DType::F32, 331, -9.0, 9.0);
    let case = CaseBuilder::new("unary/Neg/f32/large-broadcast", Op::Unary { op: UnaryOp::Neg });
    cases.push(case.output(output).input(input, &values).build());
    cases
}
