//! Selection, norms, gathers, scatters and windows.

use super::*;
use crate::Scalar;

#[test]
fn where_checks_its_condition_and_types() {
    let condition = operand(2, DType::Bool, &[2, 1]);
    let (dst, a, b) = (f32s(1, &[2, 3]), f32s(3, &[3]), f32s(4, &[]));
    let command = Command::where_(dst, condition, a, b).unwrap();
    assert_eq!(command.inputs()[0].layout.strides(), [1, 0]);
    assert!(Command::where_(dst, condition, dst, b).is_ok(), "in place is fine");
    rejected(Command::where_(dst, a, a, b), "condition is f32[3]");
    rejected(Command::where_(dst, condition, operand(5, DType::I32, &[3]), b), "b is f32[]");
    rejected(Command::where_(dst, condition, f32s(3, &[4]), b), "a is f32[4]");
}

#[test]
fn clip_checks_its_limits() {
    let (dst, bytes) = (f32s(1, &[4]), operand(2, DType::U8, &[4]));
    let limit = |value: f64| Some(Scalar::Float(value));
    assert!(Command::clip(dst, dst, limit(0.5), None).is_ok());
    rejected(Command::clip(dst, dst, None, limit(f64::NAN)), "NaN");
    rejected(Command::clip(bytes, bytes, limit(0.5), None), "min is 0.5");
    rejected(Command::clip(dst, bytes, None, None), "dst is f32[4]");
    let bools = operand(3, DType::Bool, &[4]);
    rejected(Command::clip(bools, bools, None, None), "bool");
    let command = Command::clip(bytes, bytes, limit(-7.0), limit(1e9)).unwrap();
    let limits = (Some(Scalar::Int(0)), Some(Scalar::Int(255)));
    assert_eq!(*command.op(), Op::Clip { min: limits.0, max: limits.1 });
}

#[test]
fn rms_and_group_norm_check_their_parameters() {
    let (dst, src) = (f32s(1, &[2, 6, 3]), f32s(2, &[2, 6, 3]));
    assert!(Command::rms_norm(dst, src, Some(f32s(3, &[6, 3])), 2, 1e-5).is_ok());
    rejected(Command::rms_norm(dst, src, Some(f32s(3, &[6])), 2, 1e-5), "weight is f32[6]");
    rejected(Command::rms_norm(dst, src, None, 0, 1e-5), "axes is 0");
    rejected(Command::rms_norm(dst, src, None, 1, -1.0), "epsilon is -1");
    let channels = Some(f32s(3, &[6]));
    assert!(Command::group_norm(dst, src, channels, channels, 3, 1e-5).is_ok());
    rejected(Command::group_norm(dst, src, None, None, 4, 1e-5), "groups is 4");
    rejected(Command::group_norm(dst, src, None, None, 0, 1e-5), "groups is 0");
    rejected(Command::group_norm(dst, src, None, Some(f32s(3, &[3])), 3, 1e-5), "bias is f32[3]");
    let flat = f32s(4, &[6]);
    rejected(Command::group_norm(flat, flat, None, None, 1, 1e-5), "src is f32[6]");
}

#[test]
fn gathers_check_shapes_and_index_types() {
    let (src, at) = (f32s(2, &[4, 5]), operand(3, DType::I32, &[2, 3]));
    assert!(Command::gather(f32s(1, &[4, 2, 3]), src, at, 1).is_ok());
    rejected(Command::gather(f32s(1, &[2, 3, 4]), src, at, 1), "dst is f32[2, 3, 4]");
    rejected(Command::gather(f32s(1, &[4, 2, 3]), src, at, 2), "axis is 2");
    rejected(Command::gather(f32s(1, &[4, 2, 3]), src, f32s(3, &[2, 3]), 1), "i32 or i64");
    let ints = operand(1, DType::I32, &[4, 2, 3]);
    rejected(Command::gather(ints, src, at, 1), "dst is i32[4, 2, 3]");
    assert!(Command::embedding(f32s(1, &[2, 3, 5]), src, at).is_ok());
    rejected(Command::embedding(f32s(1, &[2, 3]), src, at), "dst is f32[2, 3]");
    rejected(Command::embedding(f32s(1, &[]), f32s(2, &[]), at), "table is f32[]");
    assert!(Command::gather_elements(f32s(1, &[2, 3]), src, at, 0).is_ok());
    let wide = operand(3, DType::I64, &[5, 3]);
    assert!(Command::gather_elements(f32s(1, &[5, 3]), src, wide, 0).is_ok());
    rejected(Command::gather_elements(f32s(1, &[5, 3]), src, wide, 1), "indices is i64[5, 3]");
    rejected(Command::gather_elements(f32s(1, &[3, 5]), src, wide, 0), "dst is f32[3, 5]");
}

#[test]
fn tuples_check_their_length_and_shared_axes() {
    let src = f32s(2, &[2, 3, 4]);
    let at = |shape: &[usize]| operand(3, DType::I64, shape);
    assert!(Command::gather_nd(f32s(1, &[5, 4]), src, at(&[5, 2]), 0).is_ok());
    assert!(Command::gather_nd(f32s(1, &[2, 4]), src, at(&[2, 1]), 1).is_ok());
    rejected(Command::gather_nd(f32s(1, &[5]), src, at(&[5, 4]), 0), "indices is i64[5, 4]");
    rejected(Command::gather_nd(f32s(1, &[5]), src, at(&[5, 0]), 0), "indices is i64[5, 0]");
    rejected(Command::gather_nd(f32s(1, &[5]), src, at(&[]), 0), "indices is i64[]");
    rejected(Command::gather_nd(f32s(1, &[3, 4]), src, at(&[3, 1]), 1), "indices is i64[3, 1]");
    rejected(Command::gather_nd(f32s(1, &[2]), src, at(&[2]), 1), "batch_axes is 1");
    rejected(Command::gather_nd(f32s(1, &[5, 3]), src, at(&[5, 2]), 0), "dst is f32[5, 3]");
}

#[test]
fn scatters_check_updates_and_overlap() {
    use ScatterReduction::{Add, Max, Replace};
    let (dst, src) = (f32s(1, &[4, 5]), f32s(2, &[4, 5]));
    let (at, new) = (operand(3, DType::I64, &[2, 5]), f32s(4, &[2, 5]));
    assert!(Command::scatter_elements(dst, src, at, new, 0, Add).is_ok());
    assert!(Command::scatter_elements(dst, dst, at, new, 0, Add).is_ok(), "in place is fine");
    rejected(
        Command::scatter_elements(dst, src, at, f32s(4, &[5, 2]), 0, Add),
        "updates is f32[5, 2]",
    );
    rejected(Command::scatter_elements(dst, src, at, new, 2, Add), "axis is 2");
    let square = (operand(3, DType::I64, &[4, 5]), dst);
    rejected(Command::scatter_elements(dst, src, square.0, square.1, 0, Add), "shares memory");
    rejected(Command::scatter_elements(f32s(1, &[5, 4]), src, at, new, 0, Add), "dst is f32[5, 4]");
    let bools = |id, shape: &[usize]| operand(id, DType::Bool, shape);
    let logic = |how| {
        let (dst, src) = (bools(1, &[4, 5]), bools(2, &[4, 5]));
        Command::scatter_elements(dst, src, at, bools(4, &[2, 5]), 0, how)
    };
    assert!(logic(Replace).is_ok() && logic(Max).is_ok());
    rejected(logic(Add), "src is bool[4, 5]");
    let tuples = operand(3, DType::I32, &[7, 1]);
    assert!(Command::scatter_nd(dst, src, tuples, f32s(4, &[7, 5]), Replace).is_ok());
    rejected(
        Command::scatter_nd(dst, src, tuples, f32s(4, &[7, 4]), Replace),
        "updates is f32[7, 4]",
    );
}

#[test]
fn cumsum_and_top_k_check_axis_and_size() {
    let (dst, src) = (f32s(1, &[4, 5]), f32s(2, &[4, 5]));
    assert!(Command::cumsum(src, src, 1, true, true).is_ok(), "in place is fine");
    rejected(Command::cumsum(dst, src, 2, false, false), "axis is 2");
    rejected(Command::cumsum(f32s(1, &[5, 4]), src, 0, false, false), "dst is f32[5, 4]");
    let bools = operand(3, DType::Bool, &[4]);
    rejected(Command::cumsum(bools, bools, 0, false, false), "bool");
    let places = |shape: &[usize]| operand(4, DType::I64, shape);
    let few = f32s(1, &[4, 2]);
    assert!(Command::top_k(few, places(&[4, 2]), src, 1, true, true).is_ok());
    rejected(Command::top_k(few, places(&[4, 3]), src, 1, true, true), "[4, 3]");
    rejected(Command::top_k(few, places(&[4, 2]), src, 0, true, true), "values is f32[4, 2]");
    let many = f32s(1, &[4, 6]);
    rejected(Command::top_k(many, places(&[4, 6]), src, 1, true, true), "k is 6");
    rejected(Command::top_k(few, f32s(4, &[4, 2]), src, 1, true, true), "indices is f32[4, 2]");
}

#[test]
fn pad_checks_widths_and_what_is_left() {
    let params = |mode, before: i64, after: i64| {
        let mut params = PadParams { mode, before: [0; 8], after: [0; 8] };
        (params.before[0], params.after[0]) = (before, after);
        params
    };
    let (src, constant) = (f32s(2, &[3]), PadMode::Constant(Scalar::Int(0)));
    let pad = |size: usize, mode, before, after| {
        Command::pad(f32s(1, &[size]), src, params(mode, before, after))
    };
    assert!(pad(6, constant, 1, 2).is_ok() && pad(1, PadMode::Edge, -1, -1).is_ok());
    assert!(pad(20, PadMode::Reflect, 9, 8).is_ok(), "any width is fine");
    rejected(pad(5, constant, 1, 2), "dst is f32[5]");
    rejected(pad(0, constant, -5, 2), "src is f32[3]");
    rejected(pad(2, constant, i64::MIN, i64::MAX), "src is f32[3]");
    rejected(pad(2, PadMode::Wrap, -3, 2), "src is f32[3]");
    assert!(pad(2, constant, -3, 2).is_ok());
    rejected(Command::pad(f32s(1, &[3, 1]), src, params(constant, 0, 0)), "dst is f32[3, 1]");
    let mut beyond = params(constant, 0, 0);
    beyond.after[4] = 1;
    rejected(Command::pad(f32s(1, &[3]), src, beyond), "widths is 1");
    rejected(Command::pad(src, src, params(constant, 0, 0)), "shares memory");
}

fn window(kernel: u32, stride: u32, pad: [u32; 2], dilation: u32) -> PoolParams {
    PoolParams {
        kind: PoolKind::Max,
        spatial: 1,
        kernel: [kernel, 1, 1],
        stride: [stride, 1, 1],
        pad_before: [pad[0], 0, 0],
        pad_after: [pad[1], 0, 0],
        dilation: [dilation, 1, 1],
        ceil: false,
        indices: false,
        order: PoolOrder::Channel,
    }
}

#[test]
fn pool_takes_the_sizes_of_both_rules() {
    let pool = |from: usize, to: usize, params: PoolParams| {
        Command::pool(f32s(1, &[2, 3, to]), None, f32s(2, &[2, 3, from]), params)
    };
    let ceil = |params: PoolParams| PoolParams { ceil: true, ..params };
    assert!(pool(7, 3, window(2, 2, [0, 0], 1)).is_ok());
    assert!(pool(7, 4, ceil(window(2, 2, [0, 0], 1))).is_ok());
    rejected(pool(7, 4, window(2, 2, [0, 0], 1)), "expected f32[2, 3, 3]");
    rejected(pool(7, 5, ceil(window(2, 2, [0, 0], 1))), "expected f32[2, 3, 4]");
    // The window that is one more would begin behind the input.
    assert!(pool(4, 2, ceil(window(1, 3, [0, 2], 1))).is_ok());
    rejected(pool(4, 3, ceil(window(1, 3, [0, 2], 1))), "expected f32[2, 3, 2]");
    rejected(pool(7, 4, window(0, 2, [0, 0], 1)), "kernel is 0");
    rejected(pool(7, 4, window(2, 0, [0, 0], 1)), "stride is 0");
    rejected(pool(1, 4, window(2, 1, [2, 2], 1)), "an element in every window");
    rejected(pool(2, 1, window(3, 1, [0, 0], 1)), "expected a window");
    let most = window(u32::MAX, u32::MAX, [u32::MAX; 2], u32::MAX);
    rejected(pool(4, 1, most), "expected a window");
    rejected(pool(1, 2, window(2, 1, [2, 2], 3)), "an element in every window");
}

#[test]
fn pool_checks_types_and_ranks() {
    let params = window(2, 2, [0, 0], 1);
    let (dst, src) = (f32s(1, &[2, 3, 3]), f32s(2, &[2, 3, 7]));
    let places = operand(3, DType::I64, &[2, 3, 3]);
    assert!(Command::pool(dst, Some(places), src, params).is_ok());
    rejected(Command::pool(dst, Some(dst), src, params), "indices is f32[2, 3, 3]");
    rejected(Command::pool(dst, Some(operand(3, DType::I64, &[3])), src, params), "[3]");
    let mut mean = params;
    mean.kind = PoolKind::Average { include_padding: false };
    rejected(Command::pool(dst, Some(places), src, mean), "indices is true");
    let ints = |id, shape: &[usize]| operand(id, DType::I8, shape);
    rejected(Command::pool(ints(1, &[2, 3, 3]), None, ints(2, &[2, 3, 7]), mean), "floating");
    assert!(Command::pool(ints(1, &[2, 3, 3]), None, ints(2, &[2, 3, 7]), params).is_ok());
    rejected(Command::pool(f32s(1, &[3, 2, 3]), None, src, params), "dst is f32[3, 2, 3]");
    let mut flat = params;
    flat.spatial = 2;
    rejected(Command::pool(dst, None, src, flat), "src is f32[2, 3, 7]");
    flat.spatial = 0;
    rejected(Command::pool(f32s(1, &[2, 3]), None, f32s(2, &[2, 3]), flat), "spatial is 0");
}

#[test]
fn resize_checks_scales_and_types() {
    let params = |scale: f64, mode| ResizeParams {
        mode,
        coordinates: CoordinateMode::HalfPixel,
        scales: [scale; 8],
        region: [(0.0, 1.0); 8],
        extrapolation: 0.0,
        exclude_outside: false,
        antialias: false,
        sizes: [1; 8],
    };
    let (src, linear) = (f32s(2, &[5]), ResizeMode::Linear);
    let resize =
        |to: usize, scale: f64| Command::resize(f32s(1, &[to]), src, params(scale, linear));
    assert!(resize(10, 2.0).is_ok() && resize(3, 0.7).is_ok() && resize(4, 0.7).is_ok());
    rejected(resize(12, 2.0), "sizes is 12");
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        rejected(resize(5, scale), "scale");
    }
    rejected(resize(1, 1e-12), "scale");
    let bytes = |id, size| operand(id, DType::U8, &[size]);
    assert!(Command::resize(bytes(1, 10), bytes(2, 5), params(2.0, linear)).is_ok());
    let flags = |id, size| operand(id, DType::Bool, &[size]);
    rejected(Command::resize(flags(1, 10), flags(2, 5), params(2.0, linear)), "number");
    let nearest = ResizeMode::Nearest(NearestRounding::Floor);
    assert!(Command::resize(bytes(1, 10), bytes(2, 5), params(2.0, nearest)).is_ok());
    rejected(Command::resize(f32s(1, &[1]), f32s(2, &[0]), params(2.0, nearest)), "src is f32[0]");
    rejected(Command::resize(f32s(1, &[10, 1]), src, params(2.0, nearest)), "dst is f32[10, 1]");
    rejected(
        resize(10, 2.0).and_then(|_| {
            Command::resize(f32s(1, &[10]), src, params(2.0, ResizeMode::Cubic(f32::NAN)))
        }),
        "coefficient",
    );
    let mut crop = params(1.0, nearest);
    crop.coordinates = CoordinateMode::CropAndResize;
    assert!(Command::resize(f32s(1, &[9]), src, crop).is_ok(), "a crop may have any size");
    crop.region[0].1 = f32::INFINITY;
    rejected(Command::resize(f32s(1, &[9]), src, crop), "region");
}
