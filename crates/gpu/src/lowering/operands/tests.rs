use millstream_core::{Activation, DType, Layout};

use super::*;

fn product(shape: &[usize]) -> ProductOperands<RawBuffer> {
    let operand = |at: usize, shape: &[usize]| {
        let layout = Layout::contiguous(DType::F16, shape).unwrap();
        Operand::new(RawBuffer { address: at << 20, bytes: layout.extent_bytes() }, layout)
    };
    let (rank, k) = (shape.len(), 5);
    let with = |m: usize, n: usize| [&shape[..rank - 2], &[m, n]].concat();
    let (m, n) = (shape[rank - 2], shape[rank - 1]);
    let command = Command::matmul(
        operand(1, shape),
        operand(2, &with(m, k)),
        operand(3, &with(k, n)),
        Some(operand(4, &[n])),
        Some(operand(5, shape)),
        0.5,
        Activation::Gelu,
    )
    .unwrap();
    ProductOperands::of(&command).unwrap()
}

/// Every result lies in exactly one piece, and a piece is a product of its own.
fn check(shape: &[usize], results: usize) -> Vec<Vec<usize>> {
    let whole = product(shape);
    let pieces = whole.cut(results).unwrap();
    let mut met = vec![0; whole.dst.layout.elements()];
    for piece in &pieces {
        piece.command().unwrap();
        let layout = &piece.dst.layout;
        for flat in 0..layout.elements() {
            let (mut left, mut at) = (flat, layout.offset());
            for axis in (0..layout.rank()).rev() {
                at += left % layout.shape()[axis] * layout.strides()[axis];
                left /= layout.shape()[axis];
            }
            met[at] += 1;
        }
    }
    assert!(met.iter().all(|&times| times == 1), "{shape:?} in pieces of {results}");
    pieces.iter().map(|piece| piece.dst.layout.shape().to_vec()).collect()
}

#[test]
fn a_small_product_is_left_whole() {
    assert_eq!(check(&[3, 4], 12), [[3, 4]]);
    assert_eq!(check(&[2, 3, 4], 100), [[2, 3, 4]]);
}

#[test]
fn batches_are_cut_before_rows_and_rows_never() {
    assert_eq!(check(&[7, 4], 12), [[3, 4], [3, 4], [1, 4]]);
    assert_eq!(check(&[5, 3, 4], 24), [[2, 3, 4], [2, 3, 4], [1, 3, 4]]);
    assert_eq!(check(&[2, 3, 4], 8), [[1, 2, 4], [1, 1, 4], [1, 2, 4], [1, 1, 4]]);
    assert_eq!(check(&[2, 9], 4), [[1, 9], [1, 9]]);
}

#[test]
fn a_bare_product_has_its_scale_and_nothing_else() {
    let whole = product(&[3, 4]);
    let bare = whole.bare(whole.dst);
    assert_eq!(bare.epilogue, Epilogue { scale: 0.5, ..Epilogue::default() });
    assert!(bare.bias.is_none() && bare.residual.is_none());
}
