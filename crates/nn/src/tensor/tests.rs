use millstream_core::{DType, Device, Layout};

use super::Tensor;
use crate::{Linear, Weights};

fn device() -> Device {
    Device::cpu().unwrap()
}

fn range(shape: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>() as f64;
    Tensor::arange(0.0, count, 1.0, DType::F32, &device()).unwrap().reshape(shape).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec().unwrap()
}

#[test]
fn errors_name_the_operation_and_both_shapes() {
    let (a, b) = (range(&[2, 3]), range(&[4]));
    let broadcast = "b is f32[4], expected a shape that broadcasts with [2, 3]";
    assert_eq!(a.add(&b).unwrap_err().to_string(), format!("add: {broadcast}"));
    assert_eq!((&a / &b).unwrap_err().to_string(), format!("div: {broadcast}"));
    assert_eq!(
        a.matmul(&a).unwrap_err().to_string(),
        "matmul: b is f32[2, 3], expected 3 rows, to fit a of shape [2, 3]"
    );
    assert_eq!(
        a.reshape(&[4, -1]).unwrap_err().to_string(),
        "reshape: shape [2, 3] has 6 elements, which do not make up [4, -1]"
    );
    assert_eq!(a.softmax(2).unwrap_err().to_string(), "softmax: axis 2, but the tensor has 2 axes");
    assert!(a.to_vec::<i64>().unwrap_err().to_string().contains("to_dtype"));
    let whole = a.to_dtype(DType::I32).unwrap();
    assert!(whole.mul(0.5).unwrap_err().to_string().starts_with("mul: 0.5 is not of type i32"));
}

#[test]
fn ranges_that_cannot_be_are_errors() {
    let range = |start, end, step| Tensor::arange(start, end, step, DType::I64, &device());
    assert_eq!(range(5.0, 0.0, -2.0).unwrap().to_vec::<i64>().unwrap(), [5, 3, 1]);
    assert!(range(0.0, 1.0, 0.0).is_err());
    assert!(range(0.0, 1.0, -1.0).is_err());
    assert!(range(0.0, f64::NAN, 1.0).is_err());
    assert!(range(0.0, 1e15, 1.0).unwrap_err().is_retryable(), "out of memory");
}

#[test]
fn operators_take_tensors_and_numbers() {
    let a = range(&[3]);
    assert_eq!(values(&(&a + &a).unwrap()), [0.0, 2.0, 4.0]);
    assert_eq!(values(&((&a * 2.0).unwrap() - 1).unwrap()), [-1.0, 1.0, 3.0]);
    assert_eq!(values(&(1.0 - &a).unwrap()), [1.0, 0.0, -1.0]);
    assert_eq!(values(&(2 * a.clone()).unwrap()), [0.0, 2.0, 4.0]);
    assert_eq!(values(&(-&a).unwrap()), [0.0, -1.0, -2.0]);
    assert_eq!(values(&a.pow(2.0).unwrap()), [0.0, 1.0, 4.0]);
    let large = a.ge(1.0).unwrap();
    assert_eq!(large.to_vec::<bool>().unwrap(), [false, true, true]);
    assert_eq!(values(&large.where_cond(&a, 9.0).unwrap()), [9.0, 1.0, 2.0]);
}

#[test]
fn products_broadcast_and_take_vectors() {
    let (a, v) = (range(&[2, 1, 2, 3]), range(&[3]));
    assert_eq!(values(&range(&[2, 3]).matmul(&v).unwrap()), [5.0, 14.0]);
    assert_eq!(v.matmul(&range(&[3, 2])).unwrap().shape(), [2]);
    assert_eq!(v.matmul(&v).unwrap().to_scalar::<f32>().unwrap(), 5.0);
    assert_eq!(a.matmul(&range(&[4, 3, 5])).unwrap().shape(), [2, 4, 2, 5]);
    assert_eq!(a.matmul(&v).unwrap().shape(), [2, 1, 2]);
}

#[test]
fn reductions_drop_or_keep_axes() {
    let a = range(&[2, 3, 4]);
    assert_eq!(a.sum(.., false).unwrap().to_scalar::<f32>().unwrap(), 276.0);
    assert_eq!(a.mean([0, -1], false).unwrap().shape(), [3]);
    assert_eq!(a.max(1, true).unwrap().shape(), [2, 1, 4]);
    assert_eq!(a.argmax(-1, false).unwrap().to_vec::<i64>().unwrap(), [3; 6]);
    assert_eq!(values(&range(&[4]).cumsum(0).unwrap()), [0.0, 1.0, 3.0, 6.0]);
    assert_eq!(range(&[4]).var(.., 1, false).unwrap().to_scalar::<f32>().unwrap(), 5.0 / 3.0);
}

#[test]
fn joining_choosing_and_padding() {
    let a = range(&[2, 3]);
    assert_eq!(Tensor::cat(&[&a, &a], 1).unwrap().shape(), [2, 6]);
    assert_eq!(Tensor::stack(&[&a, &a, &a], -1).unwrap().shape(), [2, 3, 3]);
    let ids = Tensor::new(&[1i64, 0, 1], &device()).unwrap();
    assert_eq!(values(&a.embedding(&ids).unwrap()), [3.0, 4.0, 5.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(values(&a.index_select(1, &ids).unwrap()), [1.0, 0.0, 1.0, 4.0, 3.0, 4.0]);
    let places = Tensor::from_slice(&[2i64, 0], &[2, 1], &device()).unwrap();
    assert_eq!(values(&a.gather(1, &places).unwrap()), [2.0, 3.0]);
    let (best, at) = a.topk(1, 1, true).unwrap();
    assert_eq!((values(&best), at.to_vec::<i64>().unwrap()), (vec![2.0, 5.0], vec![2, 2]));
    let zero = millstream_core::PadMode::Constant(0.0.into());
    assert_eq!(a.pad(&[(0, 1), (2, -1)], zero).unwrap().shape(), [3, 4]);
    assert!(a.pad(&[(0, 0), (-2, -2)], zero).is_err());
    assert_eq!(a.item::<f32>(&[1, 2]).unwrap(), 5.0);
    assert!(a.item::<f32>(&[2, 0]).is_err());
}

#[test]
fn an_index_out_of_range_is_reported_by_the_call_that_waits() {
    let ids = Tensor::new(&[7i64], &device()).unwrap();
    let rows = range(&[2, 3]).embedding(&ids);
    assert!(rows.and_then(|rows| rows.to_vec::<f32>()).is_err());
    assert_eq!(values(&range(&[2])), [0.0, 1.0], "the stream goes on");
}

#[test]
fn tensors_print_as_in_pytorch() {
    let print = |tensor: &Tensor| tensor.to_string();
    assert_eq!(print(&range(&[2, 2])), "tensor([[0., 1.],\n        [2., 3.]])");
    assert_eq!(
        print(&(&range(&[2, 2]) / -2.0).unwrap()),
        "tensor([[-0.0000, -0.5000],\n        [-1.0000, -1.5000]])"
    );
    assert_eq!(print(&Tensor::scalar(2.5f32, &device()).unwrap()), "tensor(2.5000)");
    assert_eq!(print(&range(&[2]).to_dtype(DType::I32).unwrap()), "tensor([0, 1], dtype=i32)");
    assert_eq!(print(&range(&[2]).gt(0.5).unwrap()), "tensor([false,  true])");
    assert_eq!(
        print(&Tensor::zeros(&[0, 3], DType::F32, &device()).unwrap()),
        "tensor([], size=[0, 3])"
    );
    let wide = Tensor::new(&[1e-5f32, 1.0, f32::NAN], &device()).unwrap();
    assert_eq!(print(&wide), "tensor([1.0000e-05, 1.0000e+00,        nan])");
    assert_eq!(
        print(&range(&[2000])),
        "tensor([0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.9970e+03, 1.9980e+03,\n        1.9990e+03])"
    );
    let text = print(&Tensor::ones(&[40, 2, 20], DType::F32, &device()).unwrap());
    assert!(text.starts_with("tensor([[[1., 1., 1.,  ..., 1., 1., 1.],\n         [1.,"), "{text}");
    assert!(text.contains("]],\n\n        ...,\n\n        [[1."), "{text}");
}

#[test]
fn values_are_read_into_what_is_there() {
    let a = range(&[2, 3]);
    let mut got = [9f32; 6];
    a.t().unwrap().read_into(&mut got).unwrap();
    assert_eq!(got, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    let large = a.ge(4.0).unwrap();
    let mut flags = [true; 6];
    large.read_into(&mut flags).unwrap();
    assert_eq!(flags, [false, false, false, false, true, true]);
    assert_eq!(large.to_vec::<bool>().unwrap(), flags);
    let error = a.read_into(&mut [0f32; 5]).unwrap_err().to_string();
    assert_eq!(error, "read_into: shape [2, 3] has 6 elements, but the slice has room for 5");
    let error = a.read_into(&mut [0i64; 6]).unwrap_err().to_string();
    assert!(error.starts_with("read_into: the elements are f32, not i64"), "{error}");
    assert_eq!(a.download().unwrap().view::<f32>().unwrap(), values(&a));
}

#[test]
fn tensors_are_made_from_bytes_of_the_host_without_a_copy() {
    let device = device();
    let host = device.stream().unwrap().host_filled_by(4, |values: &mut [f32]| values.fill(2.5));
    for _ in 0..2 {
        let made = Tensor::from_host(host.clone(), &[2, 2], DType::F32, &device).unwrap();
        assert_eq!(values(&made), [2.5; 4]);
    }
    let refused = |shape: &[usize], dtype| {
        Tensor::from_host(host.clone(), shape, dtype, &device).unwrap_err().to_string()
    };
    assert_eq!(refused(&[5], DType::F32), "from_host: 4 f32 elements, but shape [5] has 5");
    assert_eq!(refused(&[16], DType::Bool), "from_host: bools are made by from_slice");
}

#[test]
fn a_layout_that_memory_cannot_have_is_no_tensor() {
    let buffer = device().stream().unwrap().allocate(256).unwrap();
    let bytes = Layout::strided(DType::U8, &[2], &[(1 << 61) + 64], 0).unwrap();
    assert!(Tensor::from_buffer(buffer.clone(), bytes.with_dtype(DType::F64)).is_err());
    let fitting = Layout::contiguous(DType::F64, &[32]).unwrap();
    assert!(Tensor::from_buffer(buffer, fitting).is_ok());
}

#[test]
fn more_than_the_host_or_the_device_has_is_an_error() {
    let one = Tensor::ones(&[1, 1], DType::F32, &device()).unwrap();
    let wide = one.broadcast_to(&[1, 1 << 58]).unwrap();
    let error = wide.to_vec::<f32>().unwrap_err();
    assert!(error.to_string().contains("out of memory on the host"), "{error}");
    let weights = Weights::from_tensors([("weight".to_owned(), wide)].into(), &device());
    assert!(Linear::new(1 << 58, 1, false, &weights).is_err());
}

#[test]
fn lists_give_their_shape_and_come_back() {
    let rows = vec![vec![1i64, 2, 3], vec![4, 5, 6]];
    let tensor = Tensor::new(&rows, &device()).unwrap();
    assert_eq!((tensor.shape(), tensor.dtype()), (&[2, 3][..], DType::I64));
    assert_eq!(tensor.to_vec2::<i64>().unwrap(), rows);
    assert_eq!(Tensor::new(&[[[true]], [[false]]], &device()).unwrap().shape(), [2, 1, 1]);
    assert_eq!(Tensor::new(&2.5f32, &device()).unwrap().to_scalar::<f32>().unwrap(), 2.5);
    assert_eq!(Tensor::new(&[[0f32; 0]; 3], &device()).unwrap().shape(), [3, 0]);
    let slices: Vec<&[u8]> = vec![&[1, 2], &[3, 4]];
    assert_eq!(Tensor::new(&slices, &device()).unwrap().to_vec::<u8>().unwrap(), [1, 2, 3, 4]);
    let planes = range(&[2, 2, 2]).to_vec3::<f32>().unwrap();
    assert_eq!(planes, [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0], [6.0, 7.0]]]);
    let ragged = Tensor::new(&[vec![1i64, 2], vec![3]], &device()).unwrap_err();
    assert_eq!(
        ragged.to_string(),
        "new: lists of different lengths: the first ones have shape [2, 2]"
    );
    assert!(tensor.to_vec3::<i64>().is_err() && planes.len() == 2);
}

#[test]
fn indices_may_be_negative_and_must_exist() {
    let a = range(&[3, 4]);
    assert_eq!(values(&a.select(0, -1).unwrap()), [8.0, 9.0, 10.0, 11.0]);
    assert_eq!(values(&a.narrow(1, -2, 1).unwrap()), [2.0, 6.0, 10.0]);
    assert_eq!(values(&a.slice(1, -3..-1).unwrap()), values(&a.slice(1, 1..=2).unwrap()));
    assert_eq!(values(&a.i((1.., -1)).unwrap()), [7.0, 11.0]);
    assert_eq!(values(&a.i((.., 1..2)).unwrap()), [1.0, 5.0, 9.0]);
    assert_eq!(a.i((.., 1..2)).unwrap().shape(), [3, 1]);
    assert_eq!(
        a.select(0, -4).unwrap_err().to_string(),
        "select: index -4, but axis 0 of shape [3, 4] has size 3"
    );
    assert_eq!(
        a.slice(1, -5..).unwrap_err().to_string(),
        "slice: range -5.., but axis 1 of shape [3, 4] has size 4"
    );
    assert_eq!(
        a.narrow(1, 3, 2).unwrap_err().to_string(),
        "narrow: 2 elements from 3 on, but axis 1 of shape [3, 4] has size 4"
    );
    assert!(a.i((0, 0, 0)).is_err());
}

#[test]
fn elements_are_sorted_repeated_and_masked_as_in_pytorch() {
    let device = device();
    let a = Tensor::new(&[[3.0f32, 1.0, 2.0], [1.0, 1.0, 0.0]], &device).unwrap();
    let (sorted, places) = a.sort(1, false).unwrap();
    assert_eq!(values(&sorted), [1.0, 2.0, 3.0, 0.0, 1.0, 1.0]);
    assert_eq!(places.to_vec2::<i64>().unwrap(), [[1, 2, 0], [2, 0, 1]]);
    assert_eq!(a.argsort(-1, true).unwrap().to_vec2::<i64>().unwrap(), [[0, 2, 1], [0, 1, 2]]);
    assert_eq!(values(&a.flip(-1).unwrap()), [2.0, 1.0, 3.0, 0.0, 1.0, 1.0]);
    assert_eq!(values(&a.flip(..).unwrap()), [0.0, 1.0, 1.0, 2.0, 1.0, 3.0]);
    let b = Tensor::new(&[1i64, 2], &device).unwrap();
    assert_eq!(b.repeat(&[2, 2]).unwrap().to_vec2::<i64>().unwrap(), [[1, 2, 1, 2]; 2]);
    assert_eq!(b.repeat(&[0]).unwrap().shape(), [0]);
    assert!(a.repeat(&[2]).is_err());
    assert_eq!(a.unsqueeze(0).unwrap().expand(&[4, -1, 3]).unwrap().shape(), [4, 2, 3]);
    assert!(a.expand(&[-1, 2, 3]).is_err());
    let mask = a.eq(1.0).unwrap();
    assert_eq!(values(&a.masked_fill(&mask, -1).unwrap()), [3.0, -1.0, 2.0, -1.0, -1.0, 0.0]);
    let square = Tensor::ones(&[3, 3], DType::I32, &device).unwrap();
    let triangle = |tensor: Tensor| tensor.to_vec2::<i32>().unwrap();
    assert_eq!(triangle(square.tril(0).unwrap()), [[1, 0, 0], [1, 1, 0], [1, 1, 1]]);
    assert_eq!(triangle(square.triu(1).unwrap()), [[0, 1, 1], [0, 0, 1], [0, 0, 0]]);
    let eye = Tensor::eye(2, DType::F32, &device).unwrap();
    assert_eq!(eye.to_vec2::<f32>().unwrap(), [[1.0, 0.0], [0.0, 1.0]]);
    let hot = Tensor::new(&[2i64, 0, 9], &device).unwrap().one_hot(3).unwrap();
    assert_eq!(hot.to_vec2::<i64>().unwrap(), [[0, 0, 1], [1, 0, 0], [0, 0, 0]]);
    let line = Tensor::linspace(-1.0, 1.0, 5, DType::F32, &device).unwrap();
    assert_eq!(values(&line), [-1.0, -0.5, 0.0, 0.5, 1.0]);
    assert_eq!(values(&line.std(.., 1, false).unwrap()), [0.790_569_4]);
    let four = Tensor::new(&[[[0.0f32, 3.0]]], &device).unwrap();
    let linear = four.resize(&[4], millstream_core::ResizeMode::Linear, true).unwrap();
    assert_eq!(values(&linear), [0.0, 1.0, 2.0, 3.0]);
}
