//! Operations on tensors: wrong shapes, types, axes and indices.

use millstream_core::{Activation, ConvParams, DType};
use millstream_nn::Tensor;

use super::{check, device, zeros, zeros_of};

#[test]
fn shapes_and_types() {
    let (a, ids) = (zeros(&[2, 3]), zeros_of(DType::I64, &[2, 3]));
    let plain = ConvParams::new(1);
    check([
        (a.add(zeros(&[4])), "add: b is f32[4], expected a shape that broadcasts with [2, 3]"),
        (a.add(&ids), "add: types f32 and i64: convert one with to_dtype"),
        (ids.mul(0.5), "mul: 0.5 is not of type i64: convert the tensor with to_dtype first"),
        (a.matmul(&a), "matmul: b is f32[2, 3], expected 3 rows, to fit a of shape [2, 3]"),
        (a.reshape(&[4, -1]), "reshape: shape [2, 3] has 6 elements, which do not make up [4, -1]"),
        (
            a.reshape(&[-1, -1]),
            "reshape: shape [2, 3] has 6 elements, which do not make up [-1, -1]",
        ),
        (
            a.unflatten(1, &[2, 2]),
            "unflatten: axis 1 of shape [2, 3] has size 3, which is not split in [2, 2]",
        ),
        (a.flatten(1, 0), "flatten: axis 1 comes behind axis 0"),
        (a.squeeze(0), "squeeze: axis 0 of shape [2, 3] has size 2, not 1"),
        (a.broadcast_to(&[3, 3]), "broadcast_to: shape [2, 3] does not broadcast to [3, 3]"),
        (
            Tensor::cat(&[&a, &zeros(&[3, 3])], 1),
            "cat: f32[2, 3] and f32[3, 3] differ in more than the size of axis 1",
        ),
        (a.where_cond(&a, 0.0), "where_cond: condition is f32[2, 3], expected bool"),
        (
            zeros(&[1, 4, 8]).conv(&zeros(&[2, 3, 3]), None, plain, Activation::None),
            "conv: weight is f32[2, 3, 3], expected [outputs, 4, kernel…] in 1 groups, to fit an input of 4 channels",
        ),
        (ids.softmax(0), "softmax: input is i64[2, 3], expected a floating-point type"),
        (
            a.layer_norm(1, Some(&zeros(&[4])), None, 1e-5),
            "layer_norm: weight is f32[4], expected a shape that broadcasts to [3]",
        ),
        (a.one_hot(3), "one_hot: f32 is not an integer type"),
    ]);
}

#[test]
fn axes_and_indices() {
    let a = zeros(&[2, 3]);
    check([
        (a.softmax(2), "softmax: axis 2, but the tensor has 2 axes"),
        (a.transpose(0, -3), "transpose: axis -3, but the tensor has 2 axes"),
        (a.permute(&[0, 0]), "permute: [0, 0] is not an order of 2 axes"),
        (a.narrow(1, 2, 2), "narrow: 2 elements from 2 on, but axis 1 of shape [2, 3] has size 3"),
        (
            a.narrow(1, -4, 1),
            "narrow: 1 elements from -4 on, but axis 1 of shape [2, 3] has size 3",
        ),
        (a.select(0, 2), "select: index 2, but axis 0 of shape [2, 3] has size 2"),
        (a.slice(1, 1..5), "slice: range 1..5, but axis 1 of shape [2, 3] has size 3"),
        (a.slice_by(1, .., 0), "slice: range .. by 0, but axis 1 of shape [2, 3] has size 3"),
        (a.i((0, 3)), "select: index 3, but axis 0 of shape [3] has size 3"),
        (
            a.index_select(0, &zeros_of(DType::I64, &[1, 1])),
            "index_select: indices of shape [1, 1], but it takes 1 axis",
        ),
        (a.index_select(0, &zeros(&[1])), "index_select: indices is f32[1], expected i32 or i64"),
    ]);
}

#[test]
fn numbers_in_and_out() {
    let a = zeros(&[2, 3]);
    let device = device();
    let values = [1f32; 5];
    check([
        (
            Tensor::from_slice(&values, &[2, 3], &device).map(drop),
            "from_slice: 5 f32 elements, but shape [2, 3] has 6",
        ),
        (
            Tensor::new(&[vec![1i64], vec![2, 3]][..], &device).map(drop),
            "new: lists of different lengths: the first ones have shape [2, 1]",
        ),
        (
            a.to_vec::<i64>().map(drop),
            "to_vec: the elements are f32, not i64: convert them with to_dtype first",
        ),
        (a.to_scalar::<f32>().map(drop), "to_scalar: it reads one element, but shape [2, 3] has 6"),
        (
            a.read_into(&mut [0f32; 4]),
            "read_into: shape [2, 3] has 6 elements, but the slice has room for 4",
        ),
        (a.item::<f32>(&[1]).map(drop), "item: 1 indices, but shape [2, 3] needs one per axis"),
        (a.to_vec3::<f32>().map(drop), "to_vec3: shape [2, 3], need 3 axes"),
    ]);
}
