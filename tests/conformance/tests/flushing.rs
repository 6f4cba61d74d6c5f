//! Devices that take subnormal numbers for zeros may do so where they compute, and nowhere else.

use millstream_conformance::{
    Case, CaseOperand, Outcome, ReferenceTarget, Target, Value, decode, encode, run_kinds,
};
use millstream_core::{DType, Op, OpKind};

/// The reference with its inputs and outputs flushed.
struct Flushing {
    /// It says so.
    says: bool,
    /// It also flushes what it only moves.
    moves: bool,
}

const KINDS: [OpKind; 5] =
    [OpKind::Unary, OpKind::Binary, OpKind::Copy, OpKind::Clip, OpKind::Where];

fn flush(operand: &CaseOperand, bytes: &mut [u8]) {
    let dtype = operand.layout.dtype();
    if !matches!(dtype, DType::F32 | DType::BF16) {
        return;
    }
    for index in 0..operand.layout.elements() {
        let place = operand.layout.position(index) * dtype.size();
        let place = &mut bytes[place..][..dtype.size()];
        if let Value::Float(value) = decode(dtype, place)
            && value.abs() < f64::from(f32::MIN_POSITIVE)
        {
            place.copy_from_slice(
                &encode(dtype, Value::Float(0f64.copysign(value)))[..dtype.size()],
            );
        }
    }
}

impl Target for Flushing {
    fn name(&self) -> &str {
        "flushing"
    }

    fn supports(&self, kind: OpKind) -> bool {
        KINDS.contains(&kind)
    }

    fn flushes_subnormals(&self) -> bool {
        self.says
    }

    /// The others have no subnormal numbers.
    fn skips(&self, case: &Case) -> Option<String> {
        let named = ["subnormal", "where", "clip"].iter().any(|part| case.name.contains(part));
        (!named).then(|| "no subnormal numbers".into())
    }

    fn run(&self, case: &Case) -> Result<Outcome, String> {
        let mut outcome = ReferenceTarget.run(case)?;
        let dtype = |operands: &[CaseOperand]| operands[0].layout.dtype();
        let same = dtype(case.inputs()) == dtype(case.outputs());
        let only_moves = matches!(case.op, Op::Where) || matches!(case.op, Op::Copy { .. }) && same;
        if only_moves && !self.moves {
            return Ok(outcome);
        }
        let mut flushed = case.clone();
        for input in case.inputs() {
            flush(input, &mut flushed.buffers[input.buffer]);
        }
        let computed = ReferenceTarget.run(&flushed)?;
        // Elements that are only stored may share a byte.
        let whole = |output: &&CaseOperand| !output.layout.dtype().is_storage();
        for output in case.outputs().iter().filter(whole) {
            let (layout, size) = (&output.layout, output.layout.dtype().size());
            for index in 0..layout.elements() {
                let place = layout.position(index) * size;
                outcome.buffers[output.buffer][place..][..size]
                    .copy_from_slice(&computed.buffers[output.buffer][place..][..size]);
            }
            flush(output, &mut outcome.buffers[output.buffer]);
        }
        Ok(outcome)
    }
}

#[test]
fn a_device_that_says_that_it_flushes_passes() {
    let report = run_kinds(&Flushing { says: true, moves: false }, &KINDS);
    assert!(report.is_clean(), "{report}");
}

#[test]
fn one_that_does_not_say_so_fails() {
    let report = run_kinds(&Flushing { says: false, moves: false }, &KINDS);
    let kinds = |kind: &str| report.failed.iter().any(|failure| failure.name.starts_with(kind));
    assert!(kinds("unary") && kinds("binary") && kinds("copy"), "{report}");
}

#[test]
fn one_that_flushes_what_it_moves_fails() {
    let report = run_kinds(&Flushing { says: true, moves: true }, &KINDS);
    let moves = ["where", "copy"];
    assert!(
        moves.iter().all(|kind| report.failed.iter().any(|f| f.name.starts_with(kind))),
        "{report}"
    );
    assert!(
        report.failed.iter().all(|f| moves.iter().any(|kind| f.name.starts_with(kind))),
        "{report}"
    );
}
