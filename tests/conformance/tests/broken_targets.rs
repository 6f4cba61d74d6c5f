//! Targets with one defect each. A check that cannot fail is a defect of the suite.

use millstream_conformance::{
    Case, CaseOperand, Fault, Outcome, ReferenceTarget, Report, Target, Value, cases, decode,
    encode, proptest_target, run_kinds,
};
use millstream_core::{DType, Layout, Op, OpKind, ReduceOp, UnaryOp};

/// The reference with something done to its outcome.
struct Broken {
    name: &'static str,
    spoil: fn(&Case, &mut Outcome),
}

impl Target for Broken {
    fn name(&self) -> &str {
        self.name
    }

    fn supports(&self, kind: OpKind) -> bool {
        ReferenceTarget.supports(kind)
    }

    fn run(&self, case: &Case) -> Result<Outcome, String> {
        let mut outcome = ReferenceTarget.run(case)?;
        (self.spoil)(case, &mut outcome);
        Ok(outcome)
    }

    fn is_bit_identical(&self) -> bool {
        true
    }
}

fn position(layout: &Layout, index: usize) -> usize {
    layout.position(index) * layout.dtype().size()
}

/// Changes each element of the output.
fn change(case: &Case, outcome: &mut Outcome, by: impl Fn(usize, Value) -> Value) {
    // A changed number may be none of a type that is only stored.
    let computed = |output: &&CaseOperand| !output.layout.dtype().is_storage();
    for output in case.outputs().iter().filter(computed) {
        let (dtype, bytes) = (output.layout.dtype(), &mut outcome.buffers[output.buffer]);
        for index in 0..output.layout.elements() {
            let place = &mut bytes[position(&output.layout, index)..][..dtype.size()];
            let value = by(index, decode(dtype, place));
            place.copy_from_slice(&encode(dtype, value)[..dtype.size()]);
        }
    }
}

fn report(name: &'static str, kinds: &[OpKind], spoil: fn(&Case, &mut Outcome)) -> Report {
    run_kinds(&Broken { name, spoil }, kinds)
}

/// At least this share of the cases, in percent, has to notice.
fn assert_noticed(report: &Report, percent: usize) {
    let all = report.passed + report.failed.len();
    let noticed = report.failed.len() * 100;
    assert!(
        noticed >= percent * all,
        "only {} of {all} noticed: {}",
        report.failed.len(),
        report.target
    );
}

const COMPUTING: [OpKind; 5] =
    [OpKind::Unary, OpKind::Binary, OpKind::Softmax, OpKind::LayerNorm, OpKind::MatMul];

#[test]
fn a_write_behind_the_buffer_is_noticed() {
    let all =
        [&COMPUTING[..], &[OpKind::Fill, OpKind::Copy, OpKind::Random, OpKind::Upload]].concat();
    let report = report("writes behind", &all, |_, outcome| {
        *outcome.buffers[0].last_mut().unwrap() ^= 1;
    });
    assert!(
        report
            .failed
            .iter()
            .filter(|failure| failure.case.is_some())
            .all(|failure| { matches!(*failure.fault, Fault::Guard { buffer: 0, .. }) })
    );
    assert_noticed(&report, 99);
}

#[test]
fn a_write_into_a_gap_or_an_input_is_noticed() {
    fn gaps(case: &Case, outcome: &mut Outcome) {
        let written = case.written(0);
        if let Some(gap) = written.iter().position(|written| !written) {
            outcome.buffers[0][gap] = !outcome.buffers[0][gap];
        }
    }
    fn inputs(case: &Case, outcome: &mut Outcome) {
        let last = case.buffers.len() - 1;
        if last > 0 {
            outcome.buffers[last][0] ^= 0x80;
        }
    }
    assert_noticed(&report("writes gaps", &[OpKind::Unary], gaps), 99);
    assert_noticed(&report("writes inputs", &[OpKind::Binary], inputs), 90);
}

#[test]
fn an_output_left_alone_is_noticed() {
    for kind in [
        OpKind::Fill,
        OpKind::Copy,
        OpKind::Unary,
        OpKind::Binary,
        OpKind::Reduce,
        OpKind::Where,
        OpKind::Pad,
        OpKind::Pool,
    ] {
        let report = report("does nothing", &[kind], |case, outcome| {
            outcome.buffers = case.buffers.clone();
        });
        // Empty outputs, and functions that leave some values as they are, cannot tell.
        assert_noticed(&report, 80);
    }
}

#[test]
fn an_error_of_a_hundred_steps_is_noticed() {
    let spoil = |case: &Case, outcome: &mut Outcome| {
        change(case, outcome, |_, value| match value {
            // A hundred steps of f32; for the narrower types this is below their own step.
            Value::Float(value) => Value::Float(value * (1.0 + 100.0 * 2f64.powi(-23))),
            int => int,
        });
    };
    let report = report("imprecise", &[OpKind::Unary, OpKind::MatMul], spoil);
    let failed =
        |part: &str| report.failed.iter().filter(|failure| failure.name.contains(part)).count();
    assert!(failed("unary/Exp/f32") > 15 && failed("unary/Sqrt/f64") > 15);
    assert!(failed("matmul/f32") > 200, "{}", failed("matmul/f32"));
}

#[test]
fn one_step_of_a_narrow_type_is_noticed() {
    let spoil = |case: &Case, outcome: &mut Outcome| {
        change(case, outcome, |_, value| match value {
            Value::Float(value) => Value::Float(value * (1.0 + 1.5 * 2f64.powi(-10))),
            int => int,
        });
    };
    let report = report("imprecise", &[OpKind::Unary, OpKind::Softmax], spoil);
    let failed =
        |part: &str| report.failed.iter().filter(|failure| failure.name.contains(part)).count();
    assert!(failed("unary/Exp/f16") > 15 && failed("softmax/false/f16") > 20);
}

#[test]
fn two_swapped_elements_are_noticed() {
    let report = report("swaps", &[OpKind::Copy, OpKind::MatMul], |case, outcome| {
        let apart = |output: &&CaseOperand| {
            output.layout.elements() > 1 && output.layout.dtype().per_byte() == 1
        };
        for output in case.outputs().iter().filter(apart) {
            let size = output.layout.dtype().size();
            let last = output.layout.elements() - 1;
            let (first, last) = (position(&output.layout, 0), position(&output.layout, last));
            for byte in 0..size {
                outcome.buffers[output.buffer].swap(first + byte, last + byte);
            }
        }
    });
    assert_noticed(&report, 60);
}

#[test]
fn a_lost_nan_and_an_invented_nan_are_noticed() {
    let lost = report("loses NaN", &[OpKind::Unary, OpKind::Reduce], |case, outcome| {
        change(case, outcome, |_, value| match value {
            Value::Float(value) if value.is_nan() => Value::Float(0.0),
            other => other,
        });
    });
    let special = lost.failed.iter().filter(|failure| failure.name.contains("special")).count();
    assert!(special > 150, "{special} cases noticed a lost NaN");
    let invented = report("invents NaN", &[OpKind::Softmax], |case, outcome| {
        change(
            case,
            outcome,
            |index, value| if index == 0 { Value::Float(f64::NAN) } else { value },
        );
    });
    assert_noticed(&invented, 80);
}

#[test]
fn a_truth_other_than_one_is_noticed() {
    let report = report("true is 255", &[OpKind::Unary, OpKind::Binary], |case, outcome| {
        if case.outputs()[0].layout.dtype() == DType::Bool {
            change(case, outcome, |_, value| Value::Int(-value.as_i128()));
        }
    });
    let noticed =
        report.failed.iter().filter(|failure| failure.name.contains("binary/Equal")).count();
    assert!(noticed > 60, "{noticed}");
}

#[test]
fn typical_mistakes_of_kernels_are_noticed() {
    let failing = |name: &'static str, kind: OpKind, part: &str, spoil: fn(&Case, &mut Outcome)| {
        let report = report(name, &[kind], spoil);
        let noticed = report.failed.iter().any(|failure| failure.name.contains(part));
        assert!(noticed, "{name} went unnoticed in {part}");
    };
    failing("rounds halves away", OpKind::Unary, "unary/Round/f32/special", |case, outcome| {
        if case.op == (Op::Unary { op: UnaryOp::Round }) {
            let input = case.input_values().remove(0);
            let round = |index: usize, old: Value| match input.values.get(index) {
                Some(Value::Float(value)) => Value::Float(value.round()),
                _ => old,
            };
            change(case, outcome, round);
        }
    });
    failing("loses the sign of zero", OpKind::Unary, "unary/Neg/f32/special", |case, outcome| {
        change(case, outcome, |_, value| match value {
            Value::Float(value) => Value::Float(value + 0.0),
            int => int,
        });
    });
    failing("takes the last maximum", OpKind::Reduce, "reduce/ArgMax", |case, outcome| {
        if matches!(case.op, Op::Reduce { op: ReduceOp::ArgMax, .. }) {
            let input = case.input_values().remove(0);
            if input.shape.len() == 2 && input.shape[1] == 12 {
                change(case, outcome, |row, _| {
                    let row = &input.values[row * 12..][..12];
                    let number = |at: &usize| row[*at].as_f64();
                    let best = |a: &usize, b: &usize| number(a).total_cmp(&number(b));
                    Value::Int((0..12).max_by(best).unwrap() as i128)
                });
            }
        }
    });
    failing("misplaces in a second output", OpKind::TopK, "top_k/f32", |case, outcome| {
        let places = case.outputs()[1];
        if !places.layout.is_empty() {
            outcome.buffers[places.buffer][position(&places.layout, 0)] ^= 1;
        }
    });
    failing("swaps host bytes", OpKind::Download, "download/f32", |_, outcome| {
        outcome.host.as_mut().unwrap().reverse();
    });
    failing("a clock that stands at -1", OpKind::Timestamp, "timestamp/", |case, outcome| {
        change(case, outcome, |_, _| Value::Int(-1));
    });
}

#[test]
fn random_numbers_that_are_not_are_noticed() {
    let failing = |name: &'static str, property: &str, spoil: fn(&Case, &mut Outcome)| {
        let report = report(name, &[OpKind::Random], spoil);
        let noticed = report.failed.iter().any(|failure| failure.name.contains(property));
        assert!(noticed, "{name} went unnoticed: {report}");
    };
    failing("constant", "seeds differ", |case, outcome| {
        change(case, outcome, |_, _| Value::Float(0.5));
    });
    failing("restarts", "depends on seed and position alone", |case, outcome| {
        change(case, outcome, |index, value| {
            Value::Float(value.as_f64() + (index % 2) as f64 / 64.0)
        });
    });
    failing("too narrow", "uniform numbers are uniform", |case, outcome| {
        change(case, outcome, |_, value| Value::Float(1.0 + (value.as_f64() - 1.0) * 0.95));
    });
    failing("clipped tails", "normal numbers are normal", |case, outcome| {
        change(case, outcome, |_, value| Value::Float(value.as_f64().clamp(-2.5, 5.5)));
    });
    failing("repeats itself", "neighbors are independent", |case, outcome| {
        if let Some(output) = case.outputs().first() {
            let bytes = outcome.buffers[output.buffer].clone();
            let dtype = output.layout.dtype();
            change(case, outcome, |index, _| {
                decode(dtype, &bytes[position(&output.layout, index & !1)..])
            });
        }
    });
}

#[test]
fn bits_that_depend_on_the_batch_are_noticed() {
    for kind in [
        OpKind::Reduce,
        OpKind::Softmax,
        OpKind::LayerNorm,
        OpKind::MatMul,
        OpKind::Unary,
        OpKind::RmsNorm,
        OpKind::Pool,
    ] {
        let report = report("one step off in large batches", &[kind], |case, outcome| {
            if case.outputs()[0].layout.elements() > 16 {
                change(case, outcome, |_, value| match value {
                    Value::Float(value) => Value::Float(value * (1.0 + 2f64.powi(-23))),
                    int => int,
                });
            }
        });
        let noticed = report.failed.iter().any(|failure| failure.name.contains("bits d"));
        assert!(noticed, "{} went unnoticed", kind.name());
    }
}

#[test]
fn errors_and_misshapen_outcomes_are_noticed() {
    let short = report("cuts buffers", &[OpKind::Fill], |_, outcome| {
        outcome.buffers[0].pop();
    });
    assert_noticed(&short, 100);
    let silent = report("forgets the host", &[OpKind::Download], |_, outcome| outcome.host = None);
    assert_noticed(&silent, 100);

    struct Failing;
    impl Target for Failing {
        fn name(&self) -> &str {
            "failing"
        }
        fn supports(&self, _: OpKind) -> bool {
            true
        }
        fn run(&self, _: &Case) -> Result<Outcome, String> {
            Err("no device".into())
        }
    }
    let report = run_kinds(&Failing, OpKind::ALL);
    assert!(report.passed == 0 && !report.is_clean());
    let empty = OpKind::ALL.iter().copied().filter(|&kind| cases(kind).is_empty());
    assert_eq!(report.uncovered, empty.collect::<Vec<_>>());
    assert!(report.to_string().contains("no device"), "{report}");
}

#[test]
#[should_panic(expected = "an arbitrary case failed")]
fn arbitrary_cases_notice_a_broken_target() {
    let broken = Broken {
        name: "forgets strides",
        spoil: |case, outcome| {
            let output = case.outputs().first().copied();
            if let Some(output) = output.filter(|output| !output.layout.is_contiguous()) {
                outcome.buffers[output.buffer].rotate_right(1);
            }
        },
    };
    proptest_target(&broken, 2000);
}
