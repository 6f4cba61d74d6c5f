//! Arguments that nobody means are errors, not panics: this file is compiled with checks for overflow.

use std::collections::HashMap;

use millstream_core::{
    Activation, ConvParams, DType, Device, PadMode, PoolKind, PoolOrder, PoolParams, Scalar,
};
use millstream_cpu as _;
use millstream_nn::*;

const MAX: usize = usize::MAX;
const SIZES: [usize; 10] =
    [0, 1, 2, 1 << 31, 1 << 32, 1 << 58, 1 << 61, isize::MAX as usize, MAX - 1, MAX];
const AXES: [isize; 7] = [isize::MIN, isize::MIN + 1, -1, 0, 1, 2, isize::MAX];

fn device() -> Device {
    Device::cpu().unwrap()
}

/// Tensors of a few elements, one of them repeated very often, and ones of none.
fn tensors() -> Vec<Tensor> {
    let device = device();
    let ones = |shape: &[usize]| Tensor::ones(shape, DType::F32, &device).unwrap();
    let wide = |shape: &[usize]| ones(&[1]).broadcast_to(shape).unwrap();
    let empty = ones(&[0, 3]);
    vec![
        ones(&[]),
        ones(&[4, 4]),
        ones(&[2, 3, 4]).permute(&[2, 0, 1]).unwrap(),
        wide(&[1 << 45]),
        wide(&[1 << 30, 1 << 30]),
        empty.broadcast_to(&[1 << 40, 0, 3]).unwrap_or(empty),
    ]
}

#[test]
fn views_take_any_numbers() {
    for tensor in tensors() {
        for axis in AXES {
            for a in SIZES {
                let _ = tensor.select(axis, a);
                let _ = tensor.chunk(a, axis);
                let _ = tensor.split(a, axis);
                for b in SIZES {
                    let _ = tensor.narrow(axis, a, b);
                    let _ = tensor.slice(axis, a..=b);
                    for step in SIZES {
                        let _ = tensor.slice_by(axis, a..b, step);
                    }
                }
            }
            let _ = tensor.slice(axis, ..=MAX);
            for other in AXES {
                let _ = tensor.transpose(axis, other);
                let _ = tensor.permute(&[axis, other]);
                let _ = tensor.flatten(axis, other);
                let _ = tensor.unflatten(axis, &[other, 2]);
            }
            let _ = (tensor.squeeze(axis), tensor.unsqueeze(axis));
            let _ = tensor.unflatten(axis, &SIZES[1..]);
        }
        for a in SIZES {
            for b in SIZES {
                let _ = (tensor.reshape(&[a, b]), tensor.broadcast_to(&[a, b]));
                let _ = tensor.reshape(&[a as isize, -1, b as isize]);
                let _ = tensor.item::<f32>(&[a, b]);
            }
        }
        let _ = format!("{tensor} {tensor:?}");
        let _ = tensor.broadcast_to(&[1; 9]);
        let _ = Tensor::cat(&[&tensor, &tensor, &tensor], 0).map(drop);
    }
    let one = &tensors()[1];
    assert_eq!(one.slice_by(0, 0..1, MAX).unwrap().shape(), [1, 4]);
    assert_eq!(one.slice_by(1, 0..4, MAX).unwrap().to_vec::<f32>().unwrap(), [1.0; 4]);
    assert!(one.slice_by(0, 0..1, 0).is_err());
    assert!(tensors()[3].split(1, 0).unwrap_err().to_string().contains("pieces"));
    assert!(tensors()[3].to_scalar::<f32>().unwrap_err().to_string().contains("one element"));
}

#[test]
fn windows_take_any_numbers() {
    let device = device();
    let image = Tensor::ones(&[1, 2, 3, 3], DType::F32, &device).unwrap();
    let kernel = Tensor::ones(&[2, 1, 2, 2], DType::F32, &device).unwrap();
    let numbers = [0, 1, 2, u32::MAX - 1, u32::MAX];
    for stride in numbers {
        for pad in numbers {
            for dilation in numbers {
                let params = |groups| ConvParams {
                    stride: [stride; 3],
                    pad_before: [pad; 3],
                    pad_after: [pad; 3],
                    dilation: [dilation; 3],
                    output_padding: [pad; 3],
                    groups,
                    ..ConvParams::new(2)
                };
                for groups in numbers {
                    // Windows that are many must be refused before they are computed.
                    let result = image.conv(&kernel, None, params(groups), Activation::None);
                    assert!(result.is_err() || stride > 2 || pad <= 2);
                    let _ = image
                        .conv_transpose(&kernel, None, params(groups), Activation::None)
                        .is_err();
                }
                let pool = PoolParams {
                    kind: PoolKind::Max,
                    spatial: 2,
                    kernel: [dilation; 3],
                    stride: [stride; 3],
                    pad_before: [pad; 3],
                    pad_after: [pad; 3],
                    dilation: [dilation; 3],
                    ceil: false,
                    indices: false,
                    order: PoolOrder::Channel,
                };
                assert!(image.pool(pool).is_err() || stride > 2 || pad <= 2);
            }
        }
    }
    for spatial in [0, 1, 2, 3, 4, u8::MAX] {
        let pool = PoolParams {
            spatial,
            ..PoolParams {
                kind: PoolKind::Max,
                spatial: 2,
                kernel: [1; 3],
                stride: [1; 3],
                pad_before: [0; 3],
                pad_after: [0; 3],
                dilation: [1; 3],
                ceil: false,
                indices: false,
                order: PoolOrder::Channel,
            }
        };
        let _ = image.pool(pool).is_err();
    }
    for before in [i64::MIN, -1, 0, 1, i64::MAX] {
        for after in [i64::MIN, -1, 0, 1, i64::MAX] {
            for mode in [PadMode::Constant(Scalar::Int(0)), PadMode::Edge, PadMode::Reflect] {
                let _ = image.pad(&[(0, 0), (0, 0), (0, 0), (before, after)], mode).is_err();
            }
        }
    }
}

#[test]
fn tensors_are_made_of_any_numbers_or_refused() {
    let device = device();
    let numbers = [0.0, -0.0, 1.0, -1.0, 1e15, 1e300, f64::MIN_POSITIVE, f64::INFINITY, f64::NAN];
    for start in numbers {
        for end in numbers {
            for step in numbers {
                if let Ok(range) = Tensor::arange(start, end, step, DType::I8, &device) {
                    assert!(range.elements() <= 2, "{start} {end} {step}");
                }
            }
        }
    }
    for a in SIZES {
        for b in SIZES {
            for dtype in DType::COMPUTED {
                let small = a.saturating_mul(b) <= 4;
                let made = Tensor::from_bytes(&[], &[a, b], dtype, &device);
                assert!(made.is_err() || a == 0 || b == 0);
                if !small || a.max(b) > 4 {
                    assert!(
                        Tensor::zeros(&[a, b, 1 << 31], dtype, &device).is_err()
                            || a == 0
                            || b == 0
                    );
                }
            }
        }
    }
    // Five times 2^62 bytes.
    let wide = &tensors()[4];
    let names = ["a", "b", "c", "d", "e"].map(|name| (name, wide));
    let error = save(std::env::temp_dir().join("millstream-never-written"), names).unwrap_err();
    assert!(error.to_string().contains("more bytes than a file"), "{error}");
}

#[test]
fn layers_take_any_sizes_or_say_why_not() {
    let device = device();
    let one = Tensor::ones(&[1, 1], DType::F32, &device).unwrap();
    let repeated = |shape: &[usize]| one.broadcast_to(shape);
    for a in SIZES {
        for b in SIZES {
            let large = a.saturating_mul(b) > 1 << 40 && a != 0 && b != 0;
            let tensors: HashMap<_, _> =
                repeated(&[b, a]).map(|tensor| ("weight".to_owned(), tensor)).into_iter().collect();
            let sources =
                [Weights::from_tensors(tensors, &device), Weights::random(1, DType::F32, &device)];
            for weights in sources.iter().filter(|_| large) {
                assert!(Linear::new(a, b, false, weights).is_err(), "{a} {b}");
                let _ = Embedding::new(a, b, weights).is_err();
                assert!(LSTM::new(a, b, Default::default(), weights).is_err());
                assert!(Conv2d::new(a, b, [a, b], Default::default(), weights).is_err());
                assert!(ConvTranspose2d::new(a, b, [b, a], Default::default(), weights).is_err());
                assert!(LayerNorm::new(&[a, b], Default::default(), weights).is_err());
            }
            let random = &sources[1];
            if a > 1 << 40 {
                assert!(MultiheadAttention::new(a, b, Default::default(), random).is_err());
                assert!(BatchNorm::new(a, Default::default(), random).is_err());
                assert!(GroupNorm::new(b, a, Default::default(), random).is_err());
            }
        }
        if a > 1 << 20 {
            let random = Weights::random(1, DType::F32, &device);
            let options = RecurrentOptions { num_layers: a, ..Default::default() };
            assert!(GRU::new(1, 1, options, &random).is_err());
            let options = TransformerOptions::default();
            assert!(TransformerEncoder::new(0, 1, a, true, options, &random).is_err());
        }
    }
}
