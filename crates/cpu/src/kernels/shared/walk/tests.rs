use millstream_core::DType;

use super::*;

fn positions(walk: &Walk<1>, start: usize, len: usize) -> Vec<usize> {
    let mut found = Vec::new();
    walk.of(0).runs(start, len, |position, before, count| {
        assert_eq!(before, found.len());
        found.extend((0..count).map(|i| position + i * walk.inner_stride(0)));
    });
    found
}

#[test]
fn dense_layouts_become_one_axis() {
    let layout = Layout::contiguous(DType::F32, &[2, 1, 3, 1, 4]).unwrap();
    let walk = Walk::in_order([&layout]);
    assert_eq!((walk.rank, walk.inner(), walk.inner_stride(0)), (1, 24, 1));
}

#[test]
fn every_layout_is_walked_in_row_major_order() {
    let dense = Layout::contiguous(DType::F32, &[2, 3, 4, 5]).unwrap();
    let layouts = [
        dense,
        dense.permute(&[2, 0, 3, 1]).unwrap(),
        dense.slice(1, 0, 2, 2).unwrap().slice(3, 1, 2, 3).unwrap(),
        Layout::contiguous(DType::F32, &[4, 1]).unwrap().broadcast_to(&[3, 4, 2]).unwrap(),
        Layout::scalar(DType::F32),
        Layout::contiguous(DType::F32, &[1, 2, 1, 2, 1, 2, 1, 2]).unwrap(),
    ];
    for layout in layouts {
        let walk = Walk::in_order([&layout]);
        let all: Vec<_> =
            (0..layout.elements()).map(|i| layout.position(i) - layout.offset()).collect();
        assert_eq!(positions(&walk, 0, all.len()), all, "{layout:?}");
        for start in 0..all.len() {
            assert_eq!(walk.position(0, start), all[start]);
            let len = (all.len() - start).min(7);
            assert_eq!(positions(&walk, start, len), all[start..start + len]);
        }
    }
}

#[test]
fn operands_are_visited_in_step() {
    let dense = Layout::contiguous(DType::F32, &[3, 4, 5]).unwrap();
    let transposed = Layout::contiguous(DType::F32, &[5, 3, 4]).unwrap().permute(&[1, 2, 0]);
    let layouts = [dense, transposed.unwrap(), dense.slice(2, 0, 1, 1).unwrap()];
    let [a, b, c] = layouts;
    let c = c.broadcast_to(&[3, 4, 5]).unwrap();
    let walk = Walk::in_order([&a, &b, &c]);
    for start in 0..60 {
        for len in [0, 1, 7, 60 - start].into_iter().filter(|len| start + len <= 60) {
            let mut index = start;
            walk.steps(start, len, |positions| {
                assert_eq!(positions, [a, b, c].map(|layout| layout.position(index)));
                index += 1;
            });
            assert_eq!(index, start + len);
        }
    }
}

#[test]
fn any_order_follows_the_memory_of_the_first_operand() {
    let dense = Layout::contiguous(DType::F32, &[3, 4, 5]).unwrap();
    let permuted = dense.permute(&[2, 0, 1]).unwrap();
    let walk = Walk::in_any_order([&permuted, &permuted]);
    assert_eq!((walk.rank, walk.inner()), (1, 60));
}

#[test]
fn empty_shapes_have_no_elements() {
    let empty = Layout::contiguous(DType::F32, &[3, 0, 5]).unwrap();
    let walk = Walk::in_any_order([&empty]);
    assert_eq!(walk.elements(), 0);
    walk.of(0).runs(0, 0, |_, _, _| unreachable!());
    walk.blocks(0..0, 512, |_, _| unreachable!());
}

#[test]
fn blocks_cover_the_range_and_respect_long_rows() {
    let rows = Layout::strided(DType::F32, &[4, 300], &[400, 1], 0).unwrap();
    let walk = Walk::in_order([&rows]);
    let mut found = Vec::new();
    walk.blocks(100..1000, 512, |start, len| found.push((start, len)));
    assert_eq!(found, [(100, 200), (300, 300), (600, 300), (900, 100)]);
}
