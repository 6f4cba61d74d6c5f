//! Inputs that do not fit are errors, whatever they are; empty ones that fit give empty results.

use millstream_core::{Activation, ConvParams, DType, Device, PadMode, Scalar, ScatterReduction};
use millstream_cpu as _;
use millstream_nn::*;
use proptest::prelude::*;

fn modules(device: &Device) -> Vec<(&'static str, Box<dyn Module>)> {
    let weights = Weights::random(1, DType::F32, device);
    let transformer = TransformerOptions { dim_feedforward: 6, ..Default::default() };
    let both = RecurrentOptions { bidirectional: true, batch_first: true, ..Default::default() };
    let groups = ConvOptions { groups: 2, ..Default::default() };
    vec![
        ("linear", Box::new(Linear::new(4, 3, true, &weights).unwrap())),
        ("conv1d", Box::new(Conv1d::new(4, 2, [3], Default::default(), &weights).unwrap())),
        ("conv2d", Box::new(Conv2d::new(4, 2, [2, 3], groups, &weights).unwrap())),
        ("up1d", Box::new(ConvTranspose1d::new(4, 2, [3], Default::default(), &weights).unwrap())),
        ("max_pool", Box::new(MaxPool2d::new([2, 2], [1, 2], [1, 0]))),
        ("avg_pool", Box::new(AvgPool2d::new([3, 3], [0, 1], [0, 0], true))),
        ("layer_norm", Box::new(LayerNorm::new(&[2, 4], Default::default(), &weights).unwrap())),
        ("rms_norm", Box::new(RMSNorm::new(&[4], Default::default(), &weights).unwrap())),
        ("group_norm", Box::new(GroupNorm::new(2, 4, Default::default(), &weights).unwrap())),
        ("batch_norm", Box::new(BatchNorm::new(4, Default::default(), &weights).unwrap())),
        ("embedding", Box::new(Embedding::new(9, 4, &weights).unwrap())),
        ("encoder", Box::new(TransformerEncoderLayer::new(4, 2, transformer, &weights).unwrap())),
        ("lstm", Box::new(LSTM::new(4, 3, both, &weights).unwrap())),
        ("gru", Box::new(GRU::new(4, 3, Default::default(), &weights).unwrap())),
        ("softmax", Box::new(Softmax { dim: 1 })),
        ("flatten", Box::new(Flatten)),
        ("gelu", Box::new(GELU::default())),
    ]
}

#[test]
fn an_empty_batch_gives_an_empty_result() {
    let device = Device::cpu().unwrap();
    let shapes: [(&str, &[usize]); 9] = [
        ("linear", &[0, 4]),
        ("conv1d", &[0, 4, 5]),
        ("conv2d", &[0, 4, 5, 5]),
        ("layer_norm", &[0, 2, 4]),
        ("group_norm", &[0, 4, 3]),
        ("batch_norm", &[0, 4]),
        ("encoder", &[5, 0, 4]),
        ("lstm", &[0, 5, 4]),
        ("gelu", &[0]),
    ];
    let modules = modules(&device);
    for (name, shape) in shapes {
        let input = Tensor::zeros(shape, DType::F32, &device).unwrap();
        let (_, module) = modules.iter().find(|(known, _)| *known == name).unwrap();
        let output = module.forward(&input).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(output.to_vec::<f32>().unwrap().is_empty(), "{name}");
    }
}

fn dtypes() -> impl Strategy<Value = DType> {
    prop::sample::select(DType::COMPUTED.to_vec())
}

fn shapes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop::sample::select(vec![0usize, 1, 2, 3, 4, 4, 4, 5]), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn layers_take_any_input_or_say_why_not(shape in shapes(), dtype in dtypes()) {
        let device = Device::cpu().unwrap();
        let input = Tensor::ones(&shape, dtype, &device).unwrap();
        for (_, module) in modules(&device) {
            if let Ok(output) = module.forward(&input) {
                prop_assert!(output.to_bytes().is_ok());
            }
        }
    }

    #[test]
    fn operations_take_any_tensors_or_say_why_not(
        first in shapes(),
        second in shapes(),
        types in (dtypes(), dtypes()),
        numbers in prop::array::uniform4(-3isize..6),
    ) {
        let device = Device::cpu().unwrap();
        let a = Tensor::ones(&first, types.0, &device).unwrap();
        let b = Tensor::ones(&second, types.1, &device).unwrap();
        let [i, j, k, l] = numbers;
        let [size, count] = [k, l].map(|number| number.unsigned_abs());
        let wide = [(k as i64, l as i64); 3];
        let zero = PadMode::Constant(Scalar::Int(0));
        let params = ConvParams { groups: size as u32, ..ConvParams::new(count) };
        let results = [
            a.add(&b), a.matmul(&b), a.pow(2), a.where_cond(&b, 1.0), a.eq(&b), a.logical_and(&b),
            a.transpose(i, j), a.permute(&[i, j, k]), a.narrow(i, size, count), a.select(i, size),
            a.slice_by(i, size..count, size), a.squeeze(i), a.unsqueeze(i), a.broadcast_to(&second),
            a.reshape(&second), a.reshape(&[i, j]), a.flatten(i, j), a.unflatten(i, &[j, k]),
            a.sum([i, j], true), a.mean(i, false), a.argmax(i, false), a.max(.., true), a.cumsum(i),
            a.softmax(i), a.var(i, count, false), a.gather(i, &b), a.index_select(i, &b),
            a.embedding(&b), a.scatter(i, &b, &a, ScatterReduction::Add), a.pad(&wide, zero),
            a.pad(&wide[..2], PadMode::Reflect), a.topk(size, i, true).map(|(values, _)| values),
            Tensor::cat(&[&a, &b], i), Tensor::stack(&[&a, &b], j), a.layer_norm(size, Some(&b), None, 0.0),
            a.rms_norm(size, None, -1.0), a.group_norm(size, Some(&b), Some(&b), 1e-5),
            a.attention(&b, &b, None, None, true), a.attention(&a, &a, Some(&b), Some(f32::NAN), false),
            a.conv(&b, None, params, Activation::Relu), a.conv_transpose(&b, None, params, Activation::None),
            a.clamp(Some(0.5), None), a.clamp(None, Some(f64::NAN)), a.to_dtype(types.1), a.gelu(), a.abs(),
            a.split(size, i).map(|mut parts| parts.pop().unwrap_or(b.clone())),
            a.chunk(size, i).map(|mut parts| parts.pop().unwrap_or(b.clone())),
        ];
        // An index of 1 may be out of range, which is known when the result is read.
        for result in results.into_iter().flatten() {
            let _ = result.to_bytes();
            let _ = result.to_string();
        }
        prop_assert!(a.to_bytes().is_ok());
    }
}
