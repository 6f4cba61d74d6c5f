//! `Op::infer` says what the suite's cases have, and names what does not fit.

mod shapes;
mod spoil;
mod table;

use millstream_conformance::{Case, arbitrary_case, cases};
use millstream_core::{Layout, Op, OpKind, Operand, RawBuffer};
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

/// Whether these are the outputs that an operation makes of these inputs.
fn makes(op: &Op, inputs: &[Layout], outputs: &[Layout], repeats: bool) -> Result<(), String> {
    let inputs: Vec<&Layout> = inputs.iter().collect();
    let made = op.infer(&inputs).map_err(|error| error.to_string())?;
    let fits = |(made, output): (&Layout, &Layout)| {
        let shape = match op.kind() {
            // One number of any rank.
            OpKind::Timestamp => output.elements() == 1,
            _ if repeats => made.broadcast_to(output.shape()).is_ok(),
            _ => made.shape() == output.shape(),
        };
        shape && made.dtype() == output.dtype() && made.is_contiguous()
    };
    if made.len() == outputs.len() && made.iter().zip(outputs).all(fits) {
        return Ok(());
    }
    Err(format!("inferred {made:?} for {outputs:?}"))
}

/// Compares what is inferred for a case with what it has.
fn agree(case: &Case) -> Result<(), String> {
    let name = |buffer: usize| RawBuffer {
        address: (buffer + 1) << 32,
        bytes: case.buffers[buffer].len(),
    };
    let command = case.command(name).map_err(|error| error.to_string())?;
    let layouts = |operands: &[Operand<RawBuffer>]| -> Vec<Layout> {
        operands.iter().map(|operand| operand.layout).collect()
    };
    let (op, outputs, inputs) =
        (command.op(), layouts(command.outputs()), layouts(command.inputs()));
    let names = (op.output_names().len(), op.input_names().len());
    if op.kind() != case.op.kind() || names != (outputs.len(), inputs.len()) {
        return Err(format!("{names:?} names for {outputs:?} and {inputs:?}"));
    }
    // The inputs of a Command are stretched already.
    makes(op, &inputs, &outputs, false)?;
    let given: Vec<Layout> = case.inputs().iter().map(|input| input.layout).collect();
    match op.kind() {
        // A bias may fit the output alone, where that is larger than both sides make it.
        OpKind::MatMul => Ok(()),
        OpKind::Copy
        | OpKind::Unary
        | OpKind::Binary
        | OpKind::Where
        | OpKind::Clip
        | OpKind::Chain => makes(&case.op, &given, &outputs, true),
        _ => makes(&case.op, &given, &outputs, false),
    }
}

#[test]
fn every_case_has_the_outputs_that_are_inferred() {
    let mut seen = 0;
    for &kind in OpKind::ALL {
        for case in cases(kind) {
            agree(&case).unwrap_or_else(|message| panic!("{case:?}: {message}"));
            seen += 1;
        }
    }
    assert!(seen > 40_000, "cases went missing: {seen}");
}

#[test]
fn arbitrary_cases_have_the_outputs_that_are_inferred() {
    let config = Config { cases: 10_000, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config)
        .run(&arbitrary_case(), |case| agree(&case).map_err(TestCaseError::fail));
    match result {
        Ok(()) => {}
        Err(TestError::Fail(message, case)) => panic!("{case:?}: {message}"),
        Err(TestError::Abort(message)) => panic!("no arbitrary cases could be made: {message}"),
    }
}

#[test]
fn every_misfit_names_what_does_not_fit() {
    // The table has an arm for every kind, or it does not compile.
    for &kind in OpKind::ALL {
        spoil::check(kind, &table::good(kind));
    }
}

#[test]
fn no_sizes_make_it_panic() {
    for &kind in OpKind::ALL {
        let good = table::good(kind);
        spoil::any_sizes(&good.op, &good.inputs);
        for (_, op) in &good.parameters {
            spoil::any_sizes(op, &good.inputs);
        }
    }
}

#[test]
fn shapes_are_those_worked_out_by_hand() {
    shapes::check();
}
