//! Whatever the numbers are: no method panics, and what a Command touches lies in its buffers.

use proptest::prelude::*;

use super::*;
use crate::MAX_RANK;

/// Small numbers mostly, and numbers at the ends of what fits.
fn number() -> impl Strategy<Value = usize> {
    prop_oneof![
        6 => 0usize..5,
        1 => (0u32..64, 0usize..3).prop_map(|(bit, by)| (1usize << bit).wrapping_sub(by)),
        1 => (0u32..64, 0usize..70).prop_map(|(bit, by)| (1usize << bit).saturating_add(by)),
        1 => any::<usize>(),
    ]
}

fn numbers() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(number(), 0..=MAX_RANK)
}

fn dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(&DType::COMPUTED[..])
}

fn layout() -> impl Strategy<Value = Layout> {
    let made = (dtype(), numbers(), numbers(), number()).prop_filter_map(
        "no layout",
        |(dtype, mut shape, mut strides, offset)| {
            let rank = shape.len().min(strides.len());
            shape.truncate(rank);
            strides.truncate(rank);
            Layout::strided(dtype, &shape, &strides, offset).ok()
        },
    );
    (made, prop::option::of(dtype())).prop_map(|(layout, other)| match other {
        Some(dtype) => layout.with_dtype(dtype),
        None => layout,
    })
}

/// One past the last byte that the layout touches, with numbers that hold everything.
fn touched(layout: &Layout) -> u128 {
    let axes = || layout.shape().iter().zip(layout.strides());
    if axes().any(|(&size, _)| size == 0) {
        return 0;
    }
    let size = layout.dtype().size() as u128;
    let count = axes().fold(1u128, |count, (&size, _)| count.saturating_mul(size as u128));
    if count > 2000 {
        let reach = axes().map(|(&size, &stride)| (size as u128 - 1) * stride as u128);
        return (layout.offset() as u128 + reach.sum::<u128>() + 1) * size;
    }
    let position = |mut index: u128| {
        axes().rev().fold(layout.offset() as u128, |position, (&size, &stride)| {
            let on_axis = index % size as u128;
            index /= size as u128;
            position + on_axis * stride as u128
        })
    };
    (0..count).map(|index| (position(index) + 1) * size).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_method_of_a_layout_takes_any_number(
        layout in layout(), shape in numbers(), numbers in [number(), number(), number(), number()]
    ) {
        let [axis, start, count, step] = numbers;
        let axis = if layout.rank() > 0 { axis % layout.rank() } else { axis };
        let made = [
            layout.broadcast_to(&shape),
            layout.slice(axis, start, count, step),
            layout.slice(axis, start % 3, 1, step),
            layout.reshape(&shape),
            layout.shifted(start),
            layout.permute(&shape),
            layout.transpose(axis, start),
            Layout::contiguous(layout.dtype(), &shape),
        ];
        for layout in made.into_iter().flatten().chain([layout]) {
            let exact = touched(&layout);
            prop_assert!(layout.extent_bytes() == usize::MAX || layout.extent_bytes() as u128 == exact);
            prop_assert!(layout.is_empty() || layout.start_bytes() <= layout.extent_bytes());
            prop_assert!(layout.elements() > 0 || layout.is_empty());
            prop_assert!(layout.dense_bytes() >= layout.elements());
            let _ = (layout.is_contiguous(), layout.is_injective(), format!("{layout:?}"));
            for index in [0, 1, start, usize::MAX] {
                let position = layout.position(index);
                let inside = (position as u128 + 1) * layout.dtype().size() as u128 <= exact;
                prop_assert!(inside || layout.is_empty() || layout.extent_bytes() == usize::MAX);
            }
        }
        let _ = crate::broadcast_shapes(&shape, layout.shape());
    }

    #[test]
    fn what_an_accepted_command_touches_lies_in_its_buffers(
        layouts in [layout(), layout(), layout()], sizes in [number(), number(), number()], kind in 0..9
    ) {
        let operand = |index: usize| {
            let buffer = RawBuffer { address: index << 20, bytes: sizes[index].max(64) };
            Operand::new(buffer, layouts[index])
        };
        let [a, b, c] = [operand(0), operand(1), operand(2)];
        // The same elements elsewhere, so that shapes and types match often.
        let like = |index: usize| Operand::new(operand(index).buffer, layouts[0]);
        let made = match kind {
            0 => Command::fill(a, 1),
            1 => Command::copy(a, b),
            2 => Command::unary(UnaryOp::Abs, a, like(1)),
            3 => Command::binary(BinaryOp::Equal, a, b, c),
            4 => Command::where_(a, b, like(1), like(2)),
            5 => Command::softmax(a, like(1), 0, false),
            6 => Command::gather(a, like(1), c, 0),
            7 => Command::cumsum(a, like(1), 0, true, false),
            _ => Command::reduce(ReduceOp::Sum, a, like(1), Axes::default()),
        };
        if let Ok(command) = made {
            prop_assert!(command.verify().is_ok());
            let _ = (command.work(), command.bytes());
            for (_, operand) in command.accesses() {
                prop_assert!(touched(&operand.layout) <= operand.buffer.bytes as u128);
            }
        }
    }
}
