use millstream_core::{BoundCommand, Command, Layout};

use super::*;

/// Computes a product as cuBLASLt would from what it is told, on the host: elements are `f32` at
/// addresses that are indices into one array.
fn execute(product: &Product, memory: &mut [f32]) {
    let problem = &product.problem;
    let at = |address: usize| address / 4;
    let (rows, columns) = (problem.result.rows as usize, problem.result.columns as usize);
    let inner = match problem.first.transposed {
        true => problem.first.rows,
        false => problem.first.columns,
    } as usize;
    let place = |matrix: &Matrix, address: usize, batch: usize, row: usize, column: usize| {
        let (row, column) = if matrix.transposed { (column, row) } else { (row, column) };
        assert!(row < matrix.rows as usize && column < matrix.columns as usize, "{matrix:?}");
        at(address) + batch * matrix.batch_stride as usize + column * matrix.leading as usize + row
    };
    for batch in 0..problem.batch as usize {
        for column in 0..columns {
            for row in 0..rows {
                let mut sum = 0.0;
                for i in 0..inner {
                    sum += memory[place(&problem.first, product.first, batch, row, i)]
                        * memory[place(&problem.second, product.second, batch, i, column)];
                }
                sum *= product.scale;
                if problem.adds {
                    sum += memory[place(&problem.added, product.added, batch, row, column)];
                }
                if problem.bias {
                    sum += memory[at(product.bias) + row];
                }
                if problem.relu {
                    sum = sum.max(0.0);
                }
                memory[place(&problem.result, product.result, batch, row, column)] = sum;
            }
        }
    }
}

fn operand(start: usize, layout: Layout) -> Operand<RawBuffer> {
    Operand::new(RawBuffer { address: start * 4, bytes: 4096 * 4 }, layout)
}

fn dense(shape: &[usize]) -> Layout {
    Layout::contiguous(DType::F32, shape).unwrap()
}

struct Case {
    dst: Layout,
    a: Layout,
    b: Layout,
    bias: Option<Layout>,
    residual: Option<Layout>,
    activation: Activation,
}

impl Case {
    fn new(dst: Layout, a: Layout, b: Layout) -> Self {
        Self { dst, a, b, bias: None, residual: None, activation: Activation::None }
    }

    fn command(&self) -> BoundCommand {
        Command::matmul(
            operand(0, self.dst),
            operand(4096, self.a),
            operand(8192, self.b),
            self.bias.map(|layout| operand(12288, layout)),
            self.residual.map(|layout| operand(16384, layout)),
            0.5,
            self.activation,
        )
        .unwrap()
    }

    fn map(&self) -> Option<Product> {
        map(&ProductOperands::of(&self.command()).unwrap())
    }

    /// Maps, executes and compares with the definition; what is left over is not computed.
    fn check(&self) -> Product {
        let command = self.command();
        let product = self.map().expect("cuBLASLt can express it");
        let mut memory: Vec<f32> =
            (0..5 * 4096).map(|i| ((i * 37 + 11) % 23) as f32 - 11.0).collect();
        let before = memory.clone();
        execute(&product, &mut memory);
        let dst = &command.outputs()[0].layout;
        let (shape, rank) = (dst.shape(), dst.rank());
        let inner = self.a.shape()[self.a.rank() - 1];
        let value = |operand: &Operand<RawBuffer>, index: &[usize]| {
            let layout = &operand.layout;
            let strides = layout.strides().iter().zip(index).map(|(stride, i)| stride * i);
            before[operand.buffer.address / 4 + layout.offset() + strides.sum::<usize>()]
        };
        for flat in 0..dst.elements() {
            let mut index = vec![0; rank];
            let mut left = flat;
            for axis in (0..rank).rev() {
                index[axis] = left % shape[axis];
                left /= shape[axis];
            }
            let (row, column) = (index[rank - 2], index[rank - 1]);
            let lead = &index[..rank - 2];
            let mut sum = 0.0;
            for i in 0..inner {
                sum += value(&command.inputs()[0], &[lead, &[row, i]].concat())
                    * value(&command.inputs()[1], &[lead, &[i, column]].concat());
            }
            sum *= 0.5;
            for (extra, left) in command.inputs()[2..].iter().zip(
                [
                    self.bias.map(|_| product.left.bias),
                    self.residual.map(|_| product.left.residual),
                ]
                .into_iter()
                .flatten(),
            ) {
                sum += if left { 0.0 } else { value(extra, &index) };
            }
            if product.problem.relu {
                sum = sum.max(0.0);
            }
            let strides = dst.strides().iter().zip(&index).map(|(stride, i)| stride * i);
            let found = memory[dst.offset() + strides.sum::<usize>()];
            assert_eq!(found, sum, "at {index:?} of {product:?}");
        }
        product
    }
}

#[test]
fn plain_and_transposed_operands_need_no_copy() {
    let (a, b, dst) = (dense(&[3, 5]), dense(&[5, 4]), dense(&[3, 4]));
    let turned = |rows, columns| dense(&[columns, rows]).transpose(0, 1).unwrap();
    for a in [a, turned(3, 5)] {
        for b in [b, turned(5, 4)] {
            for dst in [dst, turned(3, 4)] {
                assert!(Case::new(dst, a, b).check().is_complete());
            }
        }
    }
}

#[test]
fn slices_keep_their_distance_and_alignment() {
    let whole = dense(&[8, 16]);
    let a = whole.slice(1, 4, 5, 1).unwrap().slice(0, 1, 3, 1).unwrap();
    let product = Case::new(dense(&[3, 4]), a, dense(&[5, 4])).check();
    assert_eq!((product.problem.second.leading, product.problem.second.alignment), (16, 16));
    let odd = whole.slice(1, 3, 5, 1).unwrap().slice(0, 1, 3, 1).unwrap();
    let product = Case::new(dense(&[3, 4]), odd, dense(&[5, 4])).check();
    assert_eq!(product.problem.second.alignment, 4);
}

#[test]
fn single_rows_and_columns_work() {
    for (m, n, k) in [(1, 4, 5), (3, 1, 5), (3, 4, 1), (1, 1, 1), (1, 1, 7)] {
        let b = dense(&[n, k]).transpose(0, 1).unwrap();
        Case::new(dense(&[m, n]), dense(&[m, k]), dense(&[k, n])).check();
        Case::new(dense(&[m, n]), dense(&[m, k]), b).check();
    }
}

#[test]
fn a_batch_times_one_matrix_is_one_product() {
    let case = Case {
        bias: Some(dense(&[4])),
        activation: Activation::Relu,
        ..Case::new(dense(&[2, 3, 4]), dense(&[2, 3, 5]), dense(&[5, 4]))
    };
    let product = case.check();
    assert_eq!((product.problem.batch, product.problem.result.columns), (1, 6));
    assert!(product.is_complete() && product.problem.bias && product.problem.relu);
    let single = Case::new(dense(&[6, 1, 4]), dense(&[6, 1, 5]), dense(&[5, 4])).check();
    assert_eq!((single.problem.batch, single.problem.result.columns), (1, 6));
}

#[test]
fn batches_have_one_stride_or_are_left_to_our_kernel() {
    let product =
        Case::new(dense(&[2, 3, 3, 4]), dense(&[2, 3, 3, 5]), dense(&[2, 3, 5, 4])).check();
    assert_eq!(product.problem.batch, 6);
    let one = Case::new(dense(&[3, 3, 4]), dense(&[3, 5]), dense(&[3, 5, 4])).check();
    assert_eq!((one.problem.batch, one.problem.second.batch_stride), (3, 0));
    // Heads of an attention: two axes that do not join.
    let heads = dense(&[2, 3, 4, 5]).permute(&[0, 2, 1, 3]).unwrap();
    let case = Case::new(dense(&[2, 4, 3, 4]), heads, dense(&[2, 4, 5, 4]));
    assert!(case.map().is_none());
}

#[test]
fn a_residual_is_added_by_the_product() {
    let case = Case {
        bias: Some(dense(&[4])),
        residual: Some(dense(&[3, 4])),
        activation: Activation::Relu,
        ..Case::new(dense(&[3, 4]), dense(&[3, 5]), dense(&[5, 4]))
    };
    let product = case.check();
    assert!(product.is_complete() && product.problem.adds && product.problem.bias);
}

#[test]
fn what_does_not_fit_is_left_for_a_kernel() {
    // A bias per row is no bias of cuBLASLt's, and the residual is taken.
    let column = dense(&[3, 1]).broadcast_to(&[3, 4]).unwrap();
    let case = Case {
        bias: Some(column),
        residual: Some(dense(&[3, 4])),
        activation: Activation::Relu,
        ..Case::new(dense(&[3, 4]), dense(&[3, 5]), dense(&[5, 4]))
    };
    let product = case.check();
    assert!(product.left.bias && !product.left.residual);
    assert_eq!(product.left.activation, Activation::Relu);
    assert!(!product.problem.relu);
    // A whole matrix as bias takes the residual's place.
    let case = Case {
        bias: Some(dense(&[3, 4])),
        ..Case::new(dense(&[3, 4]), dense(&[3, 5]), dense(&[5, 4]))
    };
    assert!(case.check().problem.adds);
    // GELU of cuBLASLt is another function than either of ours, within its accuracy.
    let case = Case {
        activation: Activation::GeluTanh,
        ..Case::new(dense(&[3, 4]), dense(&[3, 5]), dense(&[5, 4]))
    };
    assert_eq!(case.map().unwrap().left.activation, Activation::GeluTanh);
}

#[test]
fn strides_that_no_library_has_are_left_to_our_kernel() {
    let every_other = dense(&[3, 10]).slice(1, 0, 5, 2).unwrap();
    let case = Case::new(dense(&[3, 4]), every_other, dense(&[5, 4]));
    assert!(case.map().is_none());
    let broadcast = dense(&[1, 5]).broadcast_to(&[3, 5]).unwrap();
    let case = Case::new(dense(&[3, 4]), broadcast, dense(&[5, 4]));
    assert!(case.map().is_none());
}

#[test]
fn halves_are_rounded_once() {
    let half = |shape: &[usize]| dense(shape).with_dtype(DType::F16);
    let with = |columns, activation| Case {
        bias: Some(half(&[columns])),
        activation,
        ..Case::new(half(&[3, columns]), half(&[3, 16]), half(&[16, columns]))
    };
    assert!(with(8, Activation::Relu).map().unwrap().is_complete());
    assert!(with(8, Activation::Silu).map().is_none());
    // Not aligned: the library rounds before it adds the bias.
    assert!(with(4, Activation::Relu).map().is_none());
    assert!(with(4, Activation::None).map().is_none());
    let bare = Case::new(half(&[3, 4]), half(&[3, 16]), half(&[16, 4]));
    assert!(bare.map().unwrap().is_complete());
}

#[test]
fn halves_with_more_to_do_have_sums_of_32_bits() {
    let half = |shape: &[usize]| dense(shape).with_dtype(DType::BF16);
    let case = Case {
        bias: Some(half(&[4])),
        activation: Activation::Gelu,
        ..Case::new(half(&[3, 4]), half(&[3, 5]), half(&[5, 4]))
    };
    let whole = ProductOperands::of(&case.command()).unwrap();
    let product = map(&whole.bare(operand(20480, dense(&[3, 4])))).unwrap();
    let problem = &product.problem;
    assert_eq!((problem.dtype, problem.result_dtype), (DType::BF16, DType::F32));
    assert!(product.is_complete() && !problem.bias && !problem.relu && !problem.adds);
    assert_eq!((problem.result.leading, problem.result.alignment), (4, 16));
    assert_eq!((problem.second.leading, problem.second.alignment), (5, 2));
    assert_eq!((product.scale, product.result), (0.5, 20480 * 4));
}
