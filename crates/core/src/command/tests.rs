use super::*;
use crate::{DType, Layout};

pub(super) fn operand(id: usize, dtype: DType, shape: &[usize]) -> Operand<RawBuffer> {
    let layout = Layout::contiguous(dtype, shape).unwrap();
    Operand::new(RawBuffer { address: id << 20, bytes: layout.extent_bytes() }, layout)
}

pub(super) fn f32s(id: usize, shape: &[usize]) -> Operand<RawBuffer> {
    operand(id, DType::F32, shape)
}

/// The error says which operand or parameter it is, or which rule of buffers.
#[track_caller]
pub(super) fn rejected<T: std::fmt::Debug>(result: Result<T>, part: &str) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Invalid { .. } | Error::Mismatch { .. }), "{error:?}");
    assert!(error.to_string().contains(part), "{error} lacks {part:?}");
}

#[test]
fn binary_broadcasts_inputs_to_the_output() {
    let command =
        Command::binary(BinaryOp::Add, f32s(1, &[2, 3]), f32s(2, &[3]), f32s(3, &[2, 1])).unwrap();
    assert_eq!(command.inputs()[0].layout.strides(), [0, 1]);
    assert_eq!(command.inputs()[1].layout.strides(), [1, 0]);
    assert_eq!(command.outputs().len(), 1);
}

#[test]
fn operands_that_do_not_fit_are_rejected() {
    let (a, b) = (f32s(1, &[2, 3]), f32s(2, &[4]));
    rejected(Command::binary(BinaryOp::Add, a, a, b), "b is f32 [4]");
    let ints = operand(3, DType::I32, &[2, 3]);
    rejected(Command::binary(BinaryOp::Add, a, a, ints), "b is i32 [2, 3]");
    rejected(Command::unary(UnaryOp::Exp, ints, ints), "src is i32 [2, 3]");
    rejected(Command::unary(UnaryOp::IsNan, a, a), "dst is f32 [2, 3]");
    let mut short = a;
    short.buffer.bytes = 8;
    rejected(Command::fill(short, 0.0f32), "buffer of 8 bytes");
}

#[test]
fn outputs_that_overlap_are_rejected() {
    let a = f32s(1, &[4]);
    let repeated = Operand::new(a.buffer, Layout::strided(DType::F32, &[4], &[0], 0).unwrap());
    rejected(Command::fill(repeated, 0.0f32), "overlaps itself");

    let whole = f32s(1, &[8]);
    let (low, shifted) = (
        Operand::new(whole.buffer, whole.layout.slice(0, 0, 4, 1).unwrap()),
        Operand::new(whole.buffer, whole.layout.slice(0, 1, 4, 1).unwrap()),
    );
    rejected(Command::unary(UnaryOp::Exp, low, shifted), "shares memory");
    assert!(Command::unary(UnaryOp::Exp, low, low).is_ok(), "in place is fine");
    let high = Operand::new(whole.buffer, whole.layout.slice(0, 4, 4, 1).unwrap());
    assert!(Command::unary(UnaryOp::Exp, low, high).is_ok(), "disjoint halves are fine");
}

#[test]
fn copy_in_place_of_another_type_is_rejected() {
    let a = f32s(1, &[4]);
    let ints = Operand::new(a.buffer, a.layout.with_dtype(DType::I32));
    rejected(Command::copy(ints, a), "shares memory");
}

#[test]
fn matmul_checks_sizes_and_broadcasts_batches() {
    let plain = |dst, a, b| Command::matmul(dst, a, b, None, None, 1.0, Activation::None);
    let command = plain(f32s(1, &[5, 2, 4]), f32s(2, &[5, 2, 3]), f32s(3, &[3, 4])).unwrap();
    assert_eq!(command.inputs()[1].layout.strides(), [0, 4, 1]);
    rejected(plain(f32s(1, &[2, 4]), f32s(2, &[2, 3]), f32s(3, &[4, 4])), "b is f32 [4, 4]");
    rejected(plain(f32s(1, &[4]), f32s(2, &[3]), f32s(3, &[3, 4])), "a is f32 [3]");
    rejected(
        plain(f32s(1, &[5, 2, 4]), f32s(2, &[6, 2, 3]), f32s(3, &[3, 4])),
        "a is f32 [6, 2, 3]",
    );
    rejected(plain(f32s(1, &[2, 2]), f32s(1, &[2, 2]), f32s(3, &[2, 2])), "shares memory");
}

#[test]
fn reductions_check_axes_and_empty_input() {
    let axes = |list: &[usize]| Axes::new(list).unwrap();
    let source = f32s(2, &[2, 3]);
    assert!(Command::reduce(ReduceOp::Sum, f32s(1, &[2, 1]), source, axes(&[1])).is_ok());
    rejected(
        Command::reduce(ReduceOp::Sum, f32s(1, &[2, 3]), source, axes(&[1])),
        "dst is f32 [2, 3]",
    );
    rejected(Command::reduce(ReduceOp::Sum, f32s(1, &[2, 3]), source, axes(&[5])), "axes is 5");
    rejected(
        Command::reduce(ReduceOp::Mean, f32s(1, &[1]), f32s(2, &[0]), axes(&[0])),
        "src is f32 [0]",
    );
    assert!(Command::reduce(ReduceOp::Sum, f32s(1, &[1]), f32s(2, &[0]), axes(&[0])).is_ok());
    let indices = operand(4, DType::I64, &[1, 1]);
    rejected(Command::reduce(ReduceOp::ArgMax, indices, source, axes(&[0, 1])), "one axis");
    assert!(Axes::new(&[1, 1]).is_err() && Axes::new(&[8]).is_err());
}

#[test]
fn norms_check_their_parameters() {
    let (dst, src) = (f32s(1, &[2, 3]), f32s(2, &[2, 3]));
    assert!(Command::layer_norm(dst, src, Some(f32s(3, &[3])), None, 1, 1e-5).is_ok());
    rejected(
        Command::layer_norm(dst, src, Some(f32s(3, &[2])), None, 1, 1e-5),
        "weight is f32 [2]",
    );
    rejected(Command::layer_norm(dst, src, None, None, 3, 1e-5), "axes is 3");
    rejected(Command::layer_norm(dst, src, None, None, 0, 1e-5), "axes is 0");
    rejected(Command::softmax(dst, src, 2, false), "axis is 2");
}

#[test]
fn transfers_check_their_size() {
    let dst = f32s(1, &[4]);
    assert!(Command::upload(dst, HostBytes::copy_of(&[0; 16])).is_ok());
    rejected(Command::upload(dst, HostBytes::copy_of(&[0; 15])), "source is 15 bytes");
    rejected(Command::download(HostBytes::zeroed(17), dst), "target is 17 bytes");
    rejected(Command::timestamp(dst), "dst is f32 [4]");
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = OpKind::ALL.iter().map(|kind| kind.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), OpKind::ALL.len());
}

#[test]
fn commands_stay_small_enough_to_copy() {
    assert!(std::mem::size_of::<BoundCommand>() <= 768, "{}", std::mem::size_of::<BoundCommand>());
}

mod bounds;
mod extremes;
mod index;
mod verify;

/// Outputs that are made for an operation, and inputs that are stretched on the way.
#[test]
fn an_inferred_command_is_the_one_with_outputs_of_its_own() {
    let epilogue = Epilogue { bias: true, ..Epilogue::default() };
    let [a, b, bias] = [f32s(2, &[5, 2, 3]), f32s(3, &[3, 4]), f32s(4, &[4])];
    let top = Op::TopK { axis: 1, k: 2, largest: true, sorted: true };
    for (op, inputs) in [
        (Op::MatMul { epilogue }, vec![a, b, bias]),
        (Op::Binary { op: BinaryOp::Add }, vec![f32s(2, &[2, 1]), f32s(3, &[3])]),
        (Op::Clip { min: Some(1i32.into()), max: None }, vec![operand(2, DType::U8, &[4])]),
        (top, vec![f32s(2, &[3, 4])]),
    ] {
        let parts: Vec<_> = inputs.iter().map(|input| (input.buffer, &input.layout)).collect();
        let mut made = Vec::new();
        let inferred = Command::infer(op.clone(), &parts, |layout| {
            let id = 10 + made.len();
            made.push(*layout);
            Ok::<_, Error>(RawBuffer { address: id << 20, bytes: layout.dense_bytes() })
        })
        .unwrap();
        let outputs = made.iter().enumerate().map(|(index, layout)| {
            let address = (10 + index) << 20;
            Operand::new(RawBuffer { address, bytes: layout.dense_bytes() }, *layout)
        });
        let other = Command::new(op, outputs, inputs.iter().copied()).unwrap();
        assert_eq!(inferred.op(), other.op());
        assert_eq!(inferred.outputs(), other.outputs());
        assert_eq!(inferred.inputs(), other.inputs());
        let none = Command::infer(inferred.op().clone(), &parts, |_| {
            Err::<RawBuffer, _>(Error::DeviceClosed { device: "full".into() })
        });
        assert_eq!(none.unwrap_err(), Error::DeviceClosed { device: "full".into() });
    }
    let parts = [(a.buffer, &a.layout)];
    let place = |_: &Layout| -> Result<RawBuffer> { unreachable!("nothing is made") };
    rejected(Command::infer(Op::Where, &parts, place), "inputs is 1");
}
