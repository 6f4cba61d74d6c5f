//! Every constructor with numbers that no honest caller has: an answer at once, and never a panic.

use super::*;
use crate::Scalar;

/// One element, repeated to any shape.
fn read(dtype: DType, shape: &[usize]) -> Operand<RawBuffer> {
    let layout = Layout::scalar(dtype).broadcast_to(shape).unwrap();
    Operand::new(RawBuffer { address: 0x1000, bytes: 8 }, layout)
}

/// Room for anything.
fn written(id: usize, dtype: DType, shape: &[usize]) -> Operand<RawBuffer> {
    let layout = Layout::contiguous(dtype, shape).unwrap();
    Operand::new(RawBuffer { address: id << 32, bytes: usize::MAX }, layout)
}

fn reads(shape: &[usize]) -> Operand<RawBuffer> {
    read(DType::F32, shape)
}

fn writes(shape: &[usize]) -> Operand<RawBuffer> {
    written(1, DType::F32, shape)
}

/// Shapes with as many elements as memory can have.
const LINE: [usize; 1] = [1 << 60];
const PLANE: [usize; 2] = [1 << 30, 1 << 30];
const VOLUME: [usize; 3] = [1 << 20, 1 << 20, 1 << 20];

#[track_caller]
fn accepted(command: Result<BoundCommand>) {
    let command = command.unwrap();
    assert!(command.verify().is_ok() && command.work() > 0 && command.bytes() > 0);
    assert!(!format!("{command:?}").is_empty());
}

#[test]
fn elementwise_operations_and_reductions() {
    accepted(Command::fill(writes(&LINE), 1f32));
    accepted(Command::copy(writes(&VOLUME), reads(&VOLUME)));
    accepted(Command::unary(UnaryOp::Exp, writes(&PLANE), reads(&[1])));
    accepted(Command::binary(BinaryOp::Add, writes(&LINE), reads(&LINE), reads(&[])));
    let condition = read(DType::Bool, &LINE);
    accepted(Command::where_(writes(&LINE), condition, reads(&LINE), reads(&[1])));
    let (low, high) = (Scalar::Int(i64::MIN), Scalar::Float(f64::INFINITY));
    accepted(Command::clip(writes(&LINE), reads(&LINE), Some(low), Some(high)));
    let ones = writes(&[1, 1, 1]);
    accepted(Command::reduce(ReduceOp::Sum, ones, reads(&VOLUME), Axes::all(3)));
    let empty = reads(&[1 << 30, 1 << 30, 0]);
    accepted(Command::reduce(
        ReduceOp::Sum,
        writes(&[1 << 30, 1, 1]),
        empty,
        Axes::new(&[1, 2]).unwrap(),
    ));
    accepted(Command::cumsum(writes(&PLANE), reads(&PLANE), 1, true, true));
    accepted(Command::softmax(writes(&PLANE), reads(&PLANE), 1, true));
    rejected(Command::softmax(writes(&PLANE), reads(&PLANE), usize::MAX, true), "axis");
    rejected(Command::cumsum(writes(&PLANE), reads(&PLANE), usize::MAX, true, true), "axis");
}

#[test]
fn norms_and_random_numbers() {
    let weight = Some(reads(&[1 << 30]));
    accepted(Command::layer_norm(writes(&PLANE), reads(&PLANE), weight, None, 1, f32::MAX));
    rejected(
        Command::layer_norm(writes(&PLANE), reads(&PLANE), None, None, usize::MAX, 0.0),
        "axes",
    );
    accepted(Command::rms_norm(writes(&PLANE), reads(&PLANE), weight, 1, 0.0));
    rejected(Command::rms_norm(writes(&PLANE), reads(&PLANE), None, usize::MAX, 0.0), "axes");
    let groups =
        |groups| Command::group_norm(writes(&PLANE), reads(&PLANE), weight, None, groups, 0.0);
    accepted(groups(1 << 30));
    rejected(groups(usize::MAX), "groups");
    let uniform = Distribution::Uniform { low: f32::MIN, high: f32::MAX };
    accepted(Command::random(writes(&LINE), uniform, u64::MAX, u64::MAX));
}

#[test]
fn products() {
    let (dst, a, b) = (writes(&PLANE), reads(&PLANE), reads(&PLANE));
    accepted(Command::matmul(dst, a, b, Some(reads(&[1])), None, 1.0, Activation::None));
    let batch = reads(&[1 << 20, 1, 1 << 40]);
    rejected(
        Command::matmul(
            writes(&[1 << 30, 1, 1]),
            batch,
            reads(&[1 << 40, 1]),
            None,
            None,
            1.0,
            Activation::None,
        ),
        "a is f32 [1048576, 1, 1099511627776]",
    );
    let packed = written(2, DType::U8, &[isize::MAX as usize]);
    accepted(Command::pack_weights(packed, reads(&[1, 1 << 60])));
    accepted(Command::matmul_packed(
        dst,
        a,
        packed,
        None,
        Some(reads(&[1])),
        1.0,
        Activation::None,
    ));
    let bytes = |shape: &[usize]| read(DType::I8, shape);
    let (a, b) = (bytes(&[1 << 20, 1 << 40]), bytes(&[1 << 40, 1 << 20]));
    let dst = written(1, DType::I32, &[1 << 20, 1 << 20]);
    accepted(Command::matmul_integer(dst, a, b, Some(bytes(&[1 << 20])), Some(bytes(&[]))));
    let query = reads(&[1 << 10, 1 << 10, 1 << 20, 1 << 20]);
    let key = reads(&[1 << 10, 1 << 5, 1 << 20, 1 << 20]);
    let dst = writes(&[1 << 10, 1 << 10, 1 << 20, 1 << 20]);
    let mask = Some(read(DType::Bool, &[1]));
    accepted(Command::attention(dst, query, key, key, mask, f32::MAX, true));
}

#[test]
fn convolutions() {
    const MAX: [u32; 3] = [u32::MAX; 3];
    let line = ConvParams::new(1);
    let conv = |dst: &[usize], src: &[usize], weight: &[usize], params| {
        let (dst, src, weight) = (writes(dst), reads(src), reads(weight));
        Command::conv(dst, src, weight, None, None, params, 1.0, Activation::None)
    };
    accepted(conv(&[1, 1, 1], &[1, 1, 1 << 60], &[1, 1, 1 << 60], line));
    let padded = ConvParams { pad_before: MAX, pad_after: MAX, ..line };
    let size = (1usize << 60) - (1 << 33);
    accepted(conv(&[1, 1, size + 2 * u32::MAX as usize], &[1, 1, size], &[1, 1, 1], padded));
    let far = ConvParams { dilation: MAX, stride: MAX, groups: u32::MAX, ..padded };
    rejected(conv(&[1, 1, 1], &[1, 1, 1 << 60], &[1, 1, 1 << 60], far), "groups");
    let far = ConvParams { groups: 1, ..far };
    rejected(
        conv(&[1, 1, 1], &[1, 1, 1 << 60], &[1, 1, 1 << 60], far),
        "src is f32 [1, 1, 1152921504606846976]",
    );
    rejected(
        conv(&[1, 1, 1], &[1, 1, 1], &[1, 1, 1], ConvParams { spatial: u8::MAX, ..line }),
        "spatial",
    );
    let transposed = |dst: &[usize], src: &[usize], weight: &[usize], params| {
        let (dst, src, weight) = (writes(dst), reads(src), reads(weight));
        Command::conv_transpose(dst, src, weight, None, params, 1.0, Activation::None)
    };
    let padding = ConvParams { output_padding: [u32::MAX - 1; 3], ..far };
    rejected(
        transposed(&[1, 1, 1], &[1, 1, 1 << 60], &[1, 1, 1 << 60], padding),
        "src is f32 [1, 1, 1152921504606846976]",
    );
    accepted(transposed(&[1, 1, 1 << 60], &[1, 1, 1 << 60], &[1, 1, 1], line));
    let (src, weight) = (read(DType::U8, &[1, 1, 1 << 62]), read(DType::I8, &[1, 1, 1 << 62]));
    accepted(Command::conv_integer(
        written(1, DType::I32, &[1, 1, 1]),
        src,
        weight,
        None,
        None,
        line,
    ));
}

fn pool(dst: &[usize], src: &[usize], params: PoolParams) -> Result<BoundCommand> {
    Command::pool(writes(dst), None, reads(src), params)
}

#[test]
fn pools_with_billions_of_windows_are_answered_at_once() {
    const MAX: [u32; 3] = [u32::MAX; 3];
    let params = PoolParams {
        kind: PoolKind::Max,
        spatial: 1,
        kernel: [1; 3],
        stride: [1; 3],
        pad_before: [0; 3],
        pad_after: [0; 3],
        dilation: [1; 3],
        ceil: false,
        indices: false,
        order: PoolOrder::Channel,
    };
    accepted(pool(&[1, 1, 1 << 60], &[1, 1, 1 << 60], params));
    // Windows that step over the one element of the input, except the first.
    let over = PoolParams {
        kernel: [2; 3],
        pad_before: [u32::MAX - 1; 3],
        dilation: [u32::MAX - 1; 3],
        ..params
    };
    accepted(pool(&[1, 1, 1], &[1, 1, 1], over));
    let more = PoolParams { pad_after: MAX, ..over };
    rejected(pool(&[1, 1, (1 << 32)], &[1, 1, 1], more), "src is f32 [1, 1, 1]");
    let most = PoolParams {
        kernel: MAX,
        stride: MAX,
        pad_before: MAX,
        pad_after: MAX,
        dilation: MAX,
        ..params
    };
    rejected(pool(&[1, 1, 1], &[1, 1, 1 << 60], most), "a window");
    rejected(pool(&[1, 1, 1], &[1, 1, 1], most), "a window");
}

#[test]
fn gathers_scatters_and_the_largest() {
    let indices = |shape: &[usize]| read(DType::I32, shape);
    accepted(Command::gather(writes(&PLANE), reads(&[1 << 30, 1 << 30]), indices(&[1 << 30]), 0));
    rejected(Command::gather(writes(&LINE), reads(&LINE), indices(&[1 << 50]), usize::MAX), "axis");
    accepted(Command::embedding(writes(&PLANE), reads(&[1 << 30, 1 << 30]), indices(&[1 << 30])));
    accepted(Command::gather_elements(writes(&PLANE), reads(&PLANE), indices(&PLANE), 1));
    let gather_nd = |batch_axes| {
        Command::gather_nd(writes(&[1 << 30]), reads(&PLANE), indices(&[1 << 30, 2]), batch_axes)
    };
    accepted(gather_nd(0));
    rejected(gather_nd(usize::MAX), "indices is i32 [1073741824, 2]");
    rejected(
        Command::gather_nd(writes(&[1]), reads(&PLANE), indices(&PLANE), 0),
        "indices is i32 [1073741824, 1073741824]",
    );
    let add = ScatterReduction::Add;
    let (dst, src) = (writes(&PLANE), reads(&PLANE));
    accepted(Command::scatter_elements(dst, src, indices(&PLANE), reads(&PLANE), 0, add));
    accepted(Command::scatter_nd(dst, src, indices(&[1 << 30, 1]), reads(&PLANE), add));
    rejected(
        Command::scatter_nd(dst, src, indices(&PLANE), reads(&PLANE), add),
        "indices is i32 [1073741824, 1073741824]",
    );
    let places = written(2, DType::I64, &[1 << 20, 1 << 20]);
    let values = writes(&[1 << 20, 1 << 20]);
    accepted(Command::top_k(values, places, reads(&[1 << 20, 1 << 40]), 1, true, true));
}

#[test]
fn resizes_and_pads() {
    let params = ResizeParams {
        mode: ResizeMode::Linear,
        coordinates: CoordinateMode::CropAndResize,
        scales: [1e-18; crate::MAX_RANK],
        region: [(f32::MIN, f32::MAX); crate::MAX_RANK],
        extrapolation: f32::MAX,
        exclude_outside: false,
        antialias: true,
        sizes: [1; 8],
    };
    accepted(Command::resize(writes(&LINE), reads(&LINE), params));
    let scaled = |scale: f64| {
        let mut scaled = params;
        scaled.scales = [scale; crate::MAX_RANK];
        scaled.coordinates = CoordinateMode::HalfPixel;
        Command::resize(writes(&LINE), reads(&[2]), scaled)
    };
    accepted(scaled((1u64 << 59) as f64));
    for scale in [f64::MAX, f64::INFINITY, f64::NAN, -1.0, f64::MIN_POSITIVE] {
        rejected(scaled(scale), "axis 0");
    }
    let pad = |to: &[usize], from: &[usize], before: i64, after: i64, mode| {
        let (mut befores, mut afters) = ([0; crate::MAX_RANK], [0; crate::MAX_RANK]);
        (befores[0], afters[0]) = (before, after);
        Command::pad(writes(to), reads(from), PadParams { mode, before: befores, after: afters })
    };
    accepted(pad(&LINE, &[1], (1 << 60) - 1, 0, PadMode::Edge));
    accepted(pad(&[1], &LINE, -(1 << 60) + 1, 0, PadMode::Edge));
    for (before, after) in
        [(i64::MIN, i64::MAX), (i64::MAX, i64::MIN), (i64::MIN, i64::MIN), (i64::MAX, i64::MAX)]
    {
        rejected(pad(&[4], &[4], before, after, PadMode::Reflect), "is f32 [4]");
    }
}

#[test]
fn transforms_recurrent_layers_and_quantization() {
    accepted(Command::dft(writes(&[1, 1 << 59, 2]), reads(&[1, 1 << 59, 1]), 1, false, false));
    rejected(Command::dft(writes(&[1, 2]), reads(&[1, 1]), usize::MAX, false, false), "axis");
    let stft = |dst: &[usize], frame, hop| {
        Command::stft(writes(dst), reads(&[1, 1 << 60, 1]), None, frame, hop, true)
    };
    accepted(stft(&[1, 1 << 29, 2, 2], 2, 1 << 31));
    rejected(stft(&[1, 1, 2, 2], usize::MAX, 1), "frame is");
    rejected(stft(&[1, 1, 2, 2], 2, usize::MAX), "hop is");
    let mut layer = Recurrent {
        cell: RecurrentCell::RnnRelu,
        direction: RecurrentDirection::Forward,
        sequence: writes(&[1 << 20, 1, 1 << 20, 1 << 20]),
        last_hidden: written(2, DType::F32, &[1, 1 << 20, 1 << 20]),
        last_cell: None,
        src: reads(&[1 << 20, 1 << 20, 1 << 20]),
        input_weight: reads(&[1, 1 << 20, 1 << 20]),
        hidden_weight: reads(&[1, 1 << 20, 1 << 20]),
        bias: None,
        initial_hidden: None,
        initial_cell: None,
        lengths: None,
    };
    accepted(Command::recurrent(layer.clone()));
    layer.hidden_weight = reads(&[1, 1, 1 << 60]);
    layer.cell = RecurrentCell::Gru { linear_before_reset: false };
    rejected(Command::recurrent(layer), "w_input");
    let (dst, scale) = (written(1, DType::I8, &LINE), reads(&[1]));
    accepted(Command::quantize(dst, reads(&LINE), scale, None, None));
    rejected(Command::quantize(dst, reads(&LINE), scale, None, Some(usize::MAX)), "axis");
    accepted(Command::dequantize(writes(&LINE), read(DType::I8, &LINE), scale, None, None));
}

#[test]
fn transfers_of_more_than_there_is() {
    let repeated = reads(&LINE);
    let host = HostBytes::zeroed(repeated.layout.dense_bytes());
    let requested = 4 << 60;
    assert_eq!(
        Command::download(host.clone(), repeated).unwrap_err(),
        Error::OutOfHostMemory { requested }
    );
    assert_eq!(
        Command::upload(writes(&LINE), host).unwrap_err(),
        Error::OutOfHostMemory { requested }
    );
    rejected(
        Command::timestamp(written(1, DType::I64, &[1 << 59])),
        "dst is i64 [576460752303423488]",
    );
}
