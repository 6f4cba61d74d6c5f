use super::*;
use crate::DType;

fn conv(
    dst: &[usize],
    src: &[usize],
    weight: &[usize],
    params: ConvParams,
) -> Result<BoundCommand> {
    let (dst, src, weight) = (f32s(1, dst), f32s(2, src), f32s(3, weight));
    Command::conv(dst, src, weight, None, None, params, 1.0, Activation::None)
}

#[test]
fn convolutions_check_sizes_groups_and_steps() {
    let line = ConvParams::new(1);
    assert!(conv(&[2, 4, 8], &[2, 3, 10], &[4, 3, 3], line).is_ok());
    rejected(conv(&[2, 4, 9], &[2, 3, 10], &[4, 3, 3], line), "dst is f32[2, 4, 9]");
    rejected(conv(&[1, 4, 8], &[2, 3, 10], &[4, 3, 3], line), "dst is f32[1, 4, 8]");
    rejected(conv(&[2, 4, 8], &[2, 3, 10], &[4, 2, 3], line), "weight is f32[4, 2, 3]");
    rejected(conv(&[2, 4, 8, 1], &[2, 3, 10], &[4, 3, 3], line), "dst is f32[2, 4, 8, 1]");
    rejected(conv(&[2, 4, 1], &[2, 3, 2], &[4, 3, 3], line), "src is f32[2, 3, 2]");
    rejected(conv(&[2, 4, 8], &[2, 3, 10], &[4, 3, 0], line), "weight is f32[4, 3, 0]");
    let still = ConvParams { stride: [0; 3], ..line };
    rejected(conv(&[2, 4, 8], &[2, 3, 10], &[4, 3, 3], still), "stride");
    let grouped = ConvParams { groups: 2, ..line };
    rejected(conv(&[2, 4, 8], &[2, 3, 10], &[4, 1, 3], grouped), "groups is 2");
    rejected(conv(&[2, 4, 8], &[2, 3, 10], &[4, 1, 3], ConvParams { groups: 0, ..line }), "groups");
    rejected(conv(&[2, 4], &[2, 3], &[4, 3], ConvParams::new(0)), "spatial is 0");
    let far = ConvParams { pad_before: [u32::MAX; 3], dilation: [u32::MAX; 3], ..line };
    rejected(conv(&[2, 4, 8], &[2, 3, 10], &[4, 3, 3], far), "src is f32[2, 3, 10]");
    let wide = ConvParams { pad_before: [2, 0, 0], stride: [2; 3], dilation: [2, 1, 1], ..line };
    assert!(conv(&[2, 4, 4], &[2, 3, 10], &[4, 3, 3], wide).is_ok());
}

#[test]
fn a_bias_of_a_convolution_is_spread_over_its_channels() {
    let bias = Some(f32s(4, &[4]));
    let make = |bias| {
        let (dst, src, weight) = (f32s(1, &[2, 4, 8]), f32s(2, &[2, 3, 10]), f32s(3, &[4, 3, 3]));
        Command::conv(dst, src, weight, bias, None, ConvParams::new(1), 1.0, Activation::None)
    };
    assert_eq!(make(bias).unwrap().inputs()[2].layout.strides(), [0, 1, 0]);
    rejected(make(Some(f32s(4, &[5]))), "bias is f32[5]");
}

#[test]
fn transposed_convolutions_check_sizes() {
    let make = |dst: &[usize], params| {
        let (dst, src, weight) = (f32s(1, dst), f32s(2, &[1, 2, 5]), f32s(3, &[2, 3, 3]));
        Command::conv_transpose(dst, src, weight, None, params, 1.0, Activation::None)
    };
    let line = ConvParams { stride: [2, 1, 1], ..ConvParams::new(1) };
    assert!(make(&[1, 3, 11], line).is_ok());
    assert!(make(&[1, 3, 12], ConvParams { output_padding: [1, 0, 0], ..line }).is_ok());
    rejected(make(&[1, 3, 12], line), "dst is f32[1, 3, 12]");
    // More than a step: what is behind the last tap is zero.
    assert!(make(&[1, 3, 16], ConvParams { output_padding: [5, 0, 0], ..line }).is_ok());
    rejected(make(&[1, 4, 11], line), "dst is f32[1, 4, 11]");
}

#[test]
fn integer_convolutions_check_types_and_zero_points() {
    let make = |dst, src_zero, weight_zero| {
        let (src, weight) = (operand(2, DType::U8, &[1, 2, 5]), operand(3, DType::I8, &[3, 2, 2]));
        Command::conv_integer(dst, src, weight, src_zero, weight_zero, ConvParams::new(1))
    };
    let dst = operand(1, DType::I32, &[1, 3, 4]);
    let (one, each) = (operand(4, DType::U8, &[]), operand(5, DType::I8, &[3]));
    let command = make(dst, Some(one), Some(each)).unwrap();
    assert_eq!(command.inputs()[3].layout.strides(), [1]);
    assert!(make(dst, None, Some(operand(5, DType::I8, &[1]))).is_ok());
    rejected(make(dst, Some(operand(4, DType::I8, &[])), None), "src_zero is i8[]");
    rejected(make(dst, Some(operand(4, DType::U8, &[2])), None), "one element");
    rejected(make(dst, None, Some(operand(5, DType::I8, &[2]))), "weight_zero is i8[2]");
    rejected(make(f32s(1, &[1, 3, 4]), None, None), "dst is f32[1, 3, 4]");
}

#[test]
fn attention_checks_sizes_heads_and_masks() {
    let make = |heads: usize, key: &[usize], value: &[usize], mask| {
        let (dst, query) = (f32s(1, &[2, heads, 5, 3]), f32s(2, &[2, heads, 5, 8]));
        Command::attention(dst, query, f32s(3, key), f32s(4, value), mask, 0.5, true)
    };
    let (key, value): (&[usize], &[usize]) = (&[2, 2, 7, 8], &[2, 2, 7, 3]);
    let mask = operand(5, DType::Bool, &[5, 7]);
    let command = make(4, key, value, Some(mask)).unwrap();
    assert_eq!(command.inputs()[3].layout.strides(), [0, 0, 7, 1]);
    rejected(make(3, key, value, None), "key is f32[2, 2, 7, 8]");
    rejected(make(4, &[2, 2, 7, 9], value, None), "key is f32[2, 2, 7, 9]");
    rejected(make(4, key, &[2, 2, 6, 3], None), "value is f32[2, 2, 6, 3]");
    rejected(make(4, key, value, Some(f32s(5, &[5, 6]))), "mask is f32[5, 6]");
    rejected(make(4, key, value, Some(operand(5, DType::I32, &[5, 7]))), "mask is i32[5, 7]");
    rejected(make(4, &[2, 14, 8], value, None), "key is f32[2, 14, 8]");
}

#[test]
fn quantization_checks_types_and_scales() {
    let (dst, src) = (operand(1, DType::U8, &[2, 3]), f32s(2, &[2, 3]));
    let quantize = |scale, zero, axis| Command::quantize(dst, src, scale, zero, axis);
    let (one, three) = (f32s(3, &[]), f32s(3, &[3]));
    assert!(quantize(one, Some(operand(4, DType::U8, &[1])), None).is_ok());
    let command = quantize(three, None, Some(1)).unwrap();
    assert_eq!(command.inputs()[1].layout.strides(), [0, 1]);
    rejected(quantize(three, None, Some(0)), "scale is f32[3]");
    rejected(quantize(three, None, None), "one element");
    rejected(quantize(three, None, Some(2)), "axis is 2");
    rejected(quantize(one, Some(operand(4, DType::I8, &[])), None), "zero is i8[]");
    let sums = operand(1, DType::I32, &[2, 3]);
    rejected(Command::quantize(sums, src, one, None, None), "u8, i8, u16, i16, u4, i4 or f4e2m1");
    assert!(Command::dequantize(src, operand(1, DType::I32, &[2, 3]), one, None, None).is_ok());
    rejected(
        Command::dequantize(src, operand(1, DType::I64, &[2, 3]), one, None, None),
        "i16, i32, u4",
    );
}

#[test]
fn integer_products_check_sizes_and_zero_points() {
    let make = |a_zero, b_zero| {
        let (a, b) = (operand(2, DType::U8, &[5, 2, 3]), operand(3, DType::I8, &[3, 4]));
        Command::matmul_integer(operand(1, DType::I32, &[5, 2, 4]), a, b, a_zero, b_zero)
    };
    let rows = operand(4, DType::U8, &[2]);
    let command = make(Some(rows), Some(operand(5, DType::I8, &[4]))).unwrap();
    assert_eq!(command.inputs()[2].layout.shape(), [5, 2, 1]);
    assert_eq!(command.inputs()[2].layout.strides(), [0, 1, 0]);
    assert_eq!(command.inputs()[3].layout.strides(), [0, 0, 1]);
    assert!(make(Some(operand(4, DType::U8, &[5, 2, 1])), None).is_ok());
    rejected(make(Some(operand(4, DType::U8, &[3])), None), "a_zero is u8[3]");
    rejected(make(None, Some(operand(5, DType::U8, &[4]))), "b_zero is u8[4]");
    let (a, b) = (operand(2, DType::U8, &[2, 3]), operand(3, DType::I8, &[4, 4]));
    let dst = operand(1, DType::I32, &[2, 4]);
    rejected(Command::matmul_integer(dst, a, b, None, None), "b is i8[4, 4]");
    rejected(Command::matmul_integer(dst, dst, b, None, None), "u8 or i8");
}

fn gru(batch: usize) -> Recurrent<RawBuffer> {
    Recurrent {
        cell: RecurrentCell::Gru { linear_before_reset: true },
        direction: RecurrentDirection::Both,
        sequence: f32s(1, &[6, 2, batch, 4]),
        last_hidden: f32s(2, &[2, batch, 4]),
        last_cell: None,
        src: f32s(3, &[6, batch, 5]),
        input_weight: f32s(4, &[2, 12, 5]),
        hidden_weight: f32s(5, &[2, 12, 4]),
        bias: Some(f32s(6, &[2, 2, 12])),
        initial_hidden: Some(f32s(7, &[2, batch, 4])),
        initial_cell: None,
        lengths: Some(operand(8, DType::I32, &[batch])),
    }
}

#[test]
fn recurrent_layers_check_every_operand() {
    let command = Command::recurrent(gru(3)).unwrap();
    assert_eq!((command.outputs().len(), command.inputs().len()), (2, 6));
    let with = |change: fn(&mut Recurrent<RawBuffer>)| {
        let mut layer = gru(3);
        change(&mut layer);
        Command::recurrent(layer)
    };
    rejected(with(|l| l.src = f32s(3, &[6, 3])), "src is f32[6, 3]");
    rejected(with(|l| l.input_weight = f32s(4, &[2, 16, 5])), "w_input");
    rejected(with(|l| l.bias = Some(f32s(6, &[2, 24]))), "bias");
    rejected(with(|l| l.sequence = f32s(1, &[6, 3, 8])), "sequence");
    rejected(with(|l| l.lengths = Some(f32s(8, &[3]))), "lengths is f32[3]");
    rejected(with(|l| l.initial_cell = l.initial_hidden), "initial_cell is true");
    rejected(with(|l| l.last_cell = Some(f32s(9, &[2, 3, 4]))), "outputs is 3");
    rejected(with(|l| l.direction = RecurrentDirection::Forward), "w_input");
}

#[test]
fn recurrent_layers_have_variants_that_fit_their_cell() {
    let with = |variant: RecurrentVariant, extras: RecurrentExtras<RawBuffer>| {
        Command::recurrent_with(gru(3), variant, extras)
    };
    let (usual, none) = (RecurrentVariant::default(), RecurrentExtras::default());
    assert!(with(RecurrentVariant { clip: Some(0.5), ..usual }, none.clone()).is_ok());
    rejected(with(RecurrentVariant { clip: Some(-1.0), ..usual }, none.clone()), "clip is -1");
    rejected(with(RecurrentVariant { rounded: true, ..usual }, none.clone()), "8-bit weights");
    let forgets = RecurrentVariant { input_forget: true, ..usual };
    rejected(with(forgets, none.clone()), "input_forget is true");
    let peepholes = Some(f32s(9, &[2, 12]));
    rejected(with(usual, RecurrentExtras { peepholes, ..none.clone() }), "peepholes is true");
    let zeros = Some([9, 10].map(|place| operand(place, DType::I8, &[2, 12])));
    rejected(with(usual, RecurrentExtras { zeros, ..none.clone() }), "zeros is true");
    let scales = Some([9, 10].map(|place| f32s(place, &[2, 12])));
    rejected(with(usual, RecurrentExtras { scales, ..none }), "w_input is f32[2, 12, 5]");
}

#[test]
fn fourier_transforms_check_axes_and_lengths() {
    let dft = |dst: &[usize], src: &[usize], axis, inverse, onesided| {
        Command::dft(f32s(1, dst), f32s(2, src), axis, inverse, onesided)
    };
    assert!(dft(&[3, 8, 2], &[3, 8, 1], 1, false, false).is_ok());
    assert!(dft(&[3, 5, 2], &[3, 8, 1], 1, false, true).is_ok());
    assert!(dft(&[3, 9, 1], &[3, 5, 2], 1, true, true).is_ok());
    rejected(dft(&[3, 8, 2], &[3, 8, 1], 2, false, false), "axis is 2");
    rejected(dft(&[3, 8, 2], &[3, 8, 1], 1, false, true), "dst is f32[3, 8, 2]");
    rejected(dft(&[3, 5, 2], &[3, 8, 2], 1, false, true), "src is f32[3, 8, 2]");
    rejected(dft(&[3, 8, 1], &[3, 8, 1], 1, false, false), "dst is f32[3, 8, 1]");
    rejected(dft(&[2, 8, 2], &[3, 8, 1], 1, false, false), "dst is f32[2, 8, 2]");
    rejected(dft(&[3, 0, 2], &[3, 0, 1], 1, false, false), "length is 0");
    rejected(dft(&[2], &[2], 0, false, false), "src is f32[2]");

    let stft = |dst: &[usize], window: &[usize], frame, hop| {
        Command::stft(f32s(1, dst), f32s(2, &[2, 20, 1]), Some(f32s(3, window)), frame, hop, true)
    };
    assert!(stft(&[2, 5, 5, 2], &[8], 8, 3).is_ok());
    rejected(stft(&[2, 4, 5, 2], &[8], 8, 3), "dst is f32[2, 4, 5, 2]");
    rejected(stft(&[2, 5, 5, 2], &[7], 8, 3), "window is f32[7]");
    rejected(stft(&[2, 5, 5, 2], &[8], 8, 0), "hop");
    rejected(stft(&[2, 5, 5, 2], &[8], 21, 3), "frame is 21");
}
