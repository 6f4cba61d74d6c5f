use millstream_core::{Activation, Command, DType, Epilogue, Layout, Operand, RawBuffer};

use super::packed_bytes;
use crate::kernels::Sequential;
use crate::kernels::matmul::packed;
use crate::kernels::shared::number::with_float;
use crate::kernels::shared::simd::Isa;
use crate::kernels::shared::testing::{
    FLOATS, Tensor, assert_same_bits_in_any_order, fault, noise, run,
};

fn pack(weights: &Tensor) -> Tensor {
    let packed = Tensor::output(DType::U8, &[packed_bytes(&weights.layout).unwrap()]);
    run(Command::pack_weights(packed.operand(), weights.operand()));
    packed
}

type Extra<'a> = Option<&'a Tensor>;

fn both(a: &Tensor, b: &Tensor, bias: Extra, residual: Extra, shape: &[usize]) -> [Vec<u8>; 2] {
    let (packed, activation) = (pack(b), Activation::Silu);
    let extra = |tensor: Extra| tensor.map(Tensor::operand);
    let one = |product: fn(_, _, _, _, _, _, _) -> _, b: &Tensor| {
        let dst = Tensor::output(a.layout.dtype(), shape);
        let (to, a, b) = (dst.operand(), a.operand(), b.operand());
        run(product(to, a, b, extra(bias), extra(residual), 0.5, activation));
        dst.bytes()
    };
    type Raw = Operand<RawBuffer>;
    [
        one(Command::<RawBuffer>::matmul as fn(Raw, Raw, Raw, _, _, _, _) -> _, b),
        one(Command::<RawBuffer>::matmul_packed, &packed),
    ]
}

#[test]
fn packed_weights_give_the_bits_of_plain_ones() {
    for dtype in FLOATS {
        for [m, k, n] in [[1, 70, 33], [2, 5, 129], [4, 400, 64], [15, 64, 31], [60, 800, 300]] {
            let a = Tensor::floats(dtype, &[m, k], &noise(m * k, 1));
            let transposed = Layout::contiguous(dtype, &[n, k]).unwrap().transpose(0, 1).unwrap();
            let spread = Layout::strided(dtype, &[k, n], &[n * 3, 2], 1).unwrap();
            let bias = Tensor::floats(dtype, &[n], &noise(n, 3));
            let residual = Tensor::floats(dtype, &[m, n], &noise(m * n, 4));
            for layout in [Layout::contiguous(dtype, &[k, n]).unwrap(), transposed, spread] {
                let b = Tensor::floats_strided(layout, &noise(k * n, 2));
                let [plain, packed] = both(&a, &b, Some(&bias), Some(&residual), &[m, n]);
                assert_eq!(plain, packed, "{dtype} {m}×{n}×{k} from {layout:?}");
            }
        }
    }
}

#[test]
fn every_machine_multiplies_with_what_it_packed() {
    for dtype in FLOATS {
        for [m, k, n] in [[1, 90, 200], [3, 500, 70], [29, 40, 65]] {
            let a = Tensor::floats(dtype, &[m, k], &noise(m * k, 5));
            let b = Tensor::floats(dtype, &[k, n], &noise(k * n, 6));
            let mut fused: Option<Vec<u8>> = None;
            for isa in Isa::available() {
                let dst = Tensor::output(dtype, &[m, n]);
                let epilogue = Epilogue::default();
                with_float!(dtype, T => {
                    let panel = <T as crate::kernels::matmul::micro_kernel::GemmElement>::shape(isa).columns;
                    let bytes = k * n.next_multiple_of(panel) * dtype.size();
                    let packed = Tensor::output(DType::U8, &[bytes]);
                    let (to, lhs, rhs) = (dst.operand(), a.operand(), packed.operand());
                    // SAFETY: the operands are tensors of this test and have this type; the
                    // ISA is available.
                    unsafe {
                        packed::pack::<T>(&rhs, &b.operand(), isa, &Sequential).unwrap();
                        packed::run::<T>(
                            &epilogue, &to, [&lhs, &rhs], None, None, isa, &Sequential,
                        )
                        .unwrap();
                    }
                });
                if isa == Isa::Portable {
                    continue;
                }
                let first = fused.get_or_insert_with(|| dst.bytes());
                assert_eq!(*first, dst.bytes(), "{dtype} {isa:?}");
            }
        }
    }
}

#[test]
fn batches_share_packed_weights_and_a_row_keeps_its_bits() {
    for dtype in FLOATS {
        let (k, n) = (300, 270);
        let values = noise(6 * 40 * k, 7);
        let b = Tensor::floats(dtype, &[k, n], &noise(k * n, 8));
        let packed = pack(&b);
        let product = |rows: usize, shape: &[usize], from: Layout, first: usize| {
            let a = Tensor::floats_strided(from, &values[first * k..(first + rows) * k]);
            let dst = Tensor::output(dtype, shape);
            let (to, a, b) = (dst.operand(), a.operand(), packed.operand());
            run(Command::matmul_packed(to, a, b, None, None, 1.0, Activation::None));
            dst.to_f64()
        };
        let dense = |shape: &[usize]| Layout::contiguous(dtype, shape).unwrap();
        let all = product(240, &[240, n], dense(&[240, k]), 0);
        assert_eq!(product(240, &[2, 3, 40, n], dense(&[2, 3, 40, k]), 0), all);
        let apart = Layout::strided(dtype, &[6, 40, k], &[50 * k, k, 1], 0).unwrap();
        assert_eq!(product(240, &[6, 40, n], apart, 0), all);
        for (first, rows) in [(0, 1), (239, 1), (7, 2), (5, 14), (9, 31), (100, 100)] {
            let found = product(rows, &[rows, n], dense(&[rows, k]), first);
            assert_eq!(found, all[first * n..(first + rows) * n], "{dtype}: {rows} from {first}");
        }
    }
}

#[test]
fn packed_results_do_not_depend_on_the_order_of_chunks() {
    let (m, k, n) = (350, 500, 700);
    let a = Tensor::floats(DType::F32, &[m, k], &noise(m * k, 9));
    let b = Tensor::floats(DType::F32, &[k, n], &noise(k * n, 10));
    let (packed, dst) = (pack(&b), Tensor::output(DType::F32, &[m, n]));
    let (to, a, w) = (dst.operand(), a.operand(), packed.operand());
    let command = Command::matmul_packed(to, a, w, None, None, 1.0, Activation::None);
    assert_same_bits_in_any_order(&command.unwrap(), &dst);
    let command = Command::pack_weights(packed.operand(), b.operand()).unwrap();
    assert_same_bits_in_any_order(&command, &packed);
}

#[test]
fn empty_weights_are_packed_too() {
    for [m, k, n] in [[2, 0, 3], [2, 3, 0], [0, 2, 3]] {
        let a = Tensor::floats(DType::F32, &[m, k], &noise(m * k, 11));
        let b = Tensor::floats(DType::F32, &[k, n], &noise(k * n, 12));
        let bias = Tensor::floats(DType::F32, &[n], &noise(n, 13));
        let [plain, packed] = both(&a, &b, Some(&bias), None, &[m, n]);
        assert_eq!(plain, packed);
    }
}

/// A fault of the Command, and not a panic: a program may be built to end at one.
#[test]
fn packed_weights_of_another_size_or_place_are_a_fault() {
    let (a, dst) = (Tensor::output(DType::F32, &[1, 4]), Tensor::output(DType::F32, &[1, 5]));
    let packed = Tensor::output(DType::U8, &[80]);
    let product = |packed| {
        let (to, a) = (dst.operand(), a.operand());
        fault(Command::matmul_packed(to, a, packed, None, None, 1.0, Activation::None))
    };
    let text = product(packed.operand());
    assert!(text.starts_with("packed weights of [4, 5]"), "{text}");
    let weights = Tensor::output(DType::F32, &[4, 5]);
    let text = fault(Command::pack_weights(packed.operand(), weights.operand()));
    assert!(text.starts_with("packed weights of [4, 5]"), "{text}");

    let bytes = packed_bytes(&weights.layout).unwrap();
    let large = Tensor::output(DType::U8, &[bytes + 1]);
    let shifted = Layout::contiguous(DType::U8, &[bytes]).unwrap().shifted(1).unwrap();
    let shifted = Operand::new(large.operand().buffer, shifted);
    assert!(product(shifted).contains("between two elements"));
    let text = fault(Command::pack_weights(shifted, weights.operand()));
    assert!(text.contains("between two elements"), "{text}");
}

#[test]
fn only_floating_point_matrices_can_be_packed() {
    let bytes = |dtype, shape: &[usize]| packed_bytes(&Layout::contiguous(dtype, shape).unwrap());
    assert_eq!(bytes(DType::I8, &[4, 4]), None);
    assert_eq!(bytes(DType::F32, &[4]), None);
    assert!(bytes(DType::F16, &[4, 4]) >= Some(32));
}

#[test]
fn weights_that_no_memory_has_packed_need_more_than_any_device_has() {
    let one = Layout::contiguous(DType::F32, &[1, 1]).unwrap();
    for shape in
        [[1 << 58, 1], [1, 1 << 58], [1 << 30, 1 << 30], [(1 << 61) - 1, 1], [1, (1 << 61) - 1]]
    {
        let bytes = packed_bytes(&one.broadcast_to(&shape).unwrap()).unwrap();
        assert!(bytes >= 4 << 58, "{shape:?} in {bytes} bytes");
        assert!(bytes <= isize::MAX as usize);
    }
}

#[test]
fn packed_weights_whose_size_wraps_around_are_refused() {
    let packed = Tensor::output(DType::U8, &[0]);
    let source = Tensor::output(DType::F32, &[1, 1]);
    let wide =
        Operand::new(source.operand().buffer, source.layout.broadcast_to(&[1 << 58, 1]).unwrap());
    let text = fault(Command::pack_weights(packed.operand(), wide));
    assert!(text.contains("too many bytes"), "{text}");
}
