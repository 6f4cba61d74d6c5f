use half::{bf16, f16};
use millstream_core::{DType, Scalar};

use super::Conversion;
use crate::kernels::shared::block::BLOCK;
use crate::kernels::shared::simd::on_every_isa;

/// Numbers at the ends of all types, beyond them, and between their numbers.
fn numbers() -> Vec<Scalar> {
    let mut numbers = vec![Scalar::UInt(u64::MAX), Scalar::Int(i64::MIN), Scalar::Int(i64::MAX)];
    for bits in [0, 1, 7, 8, 15, 16, 24, 31, 32, 53, 62] {
        for near in [-1, 0, 1] {
            numbers.extend([1, -1].map(|sign| Scalar::Int(sign * ((1 << bits) + near))));
        }
    }
    let floats = [0.0, 0.3, 0.5, 1.5, 2.5, 255.9, 65519.0, 65520.0, 1e-8, 1e10, 1e20, 1e300];
    numbers.extend(floats.into_iter().chain([f64::INFINITY, f64::NAN]).map(Scalar::Float));
    numbers.extend(floats.into_iter().chain([f64::INFINITY]).map(|x| Scalar::Float(-x)));
    numbers
}

/// The number that some bytes are.
fn number(dtype: DType, bytes: &[u8]) -> Scalar {
    macro_rules! read {
        ($type:ty) => {
            <$type>::from_ne_bytes(bytes.try_into().unwrap())
        };
    }
    match dtype {
        DType::F32 => Scalar::Float(read!(f32).into()),
        DType::F16 => Scalar::Float(read!(f16).to_f64()),
        DType::BF16 => Scalar::Float(read!(bf16).to_f64()),
        DType::F64 => Scalar::Float(read!(f64)),
        DType::I8 => Scalar::Int(read!(i8).into()),
        DType::I16 => Scalar::Int(read!(i16).into()),
        DType::I32 => Scalar::Int(read!(i32).into()),
        DType::I64 => Scalar::Int(read!(i64)),
        DType::U8 => Scalar::Int(read!(u8).into()),
        DType::U16 => Scalar::Int(read!(u16).into()),
        DType::U32 => Scalar::Int(read!(u32).into()),
        DType::U64 => Scalar::UInt(read!(u64)),
        DType::Bool => Scalar::Bool(bytes[0] == 1),
        other => panic!("{other} is only stored"),
    }
}

fn is_nan(number: Scalar) -> bool {
    matches!(number, Scalar::Float(value) if value.is_nan())
}

#[test]
fn every_pair_of_types_converts_as_single_numbers_do() {
    // More than a block, and no multiple of one.
    let count = 2 * BLOCK + 77;
    let numbers = numbers();
    for from in DType::COMPUTED {
        let source: Vec<u8> = numbers
            .iter()
            .cycle()
            .take(count)
            .flat_map(|number| number.to_bytes(from)[..from.size()].to_vec())
            .collect();
        for to in DType::COMPUTED {
            let made = on_every_isa(|| {
                let mut made = vec![0xA5; count * to.size()];
                // SAFETY: both have so many elements.
                unsafe { converted(from, to, &source, &mut made, count) };
                made
            });
            for made in made {
                let elements = source.chunks(from.size()).zip(made.chunks(to.size()));
                for (source, made) in elements {
                    let value = number(from, source);
                    let expected = &value.to_bytes(to)[..to.size()];
                    let both_nan = is_nan(number(to, made)) && is_nan(number(to, expected));
                    assert!(
                        made == expected || both_nan,
                        "{value} from {from} to {to}: {made:?} and not {expected:?}"
                    );
                }
            }
        }
    }
}

/// Runs a conversion on aligned memory.
///
/// # Safety
///
/// The slices have so many elements of the types.
unsafe fn converted(from: DType, to: DType, source: &[u8], made: &mut [u8], count: usize) {
    let words = |bytes: usize| vec![0u64; bytes.div_ceil(8)];
    let (mut aligned, mut result) = (words(source.len()), words(made.len()));
    // SAFETY: passed on; words are aligned for every type.
    unsafe {
        let first = aligned.as_mut_ptr().cast::<u8>();
        first.copy_from_nonoverlapping(source.as_ptr(), source.len());
        let to_first = result.as_mut_ptr().cast::<u8>();
        Conversion::new(from, to).run(first, to_first, count);
        made.as_mut_ptr().copy_from_nonoverlapping(to_first, made.len());
    }
}
