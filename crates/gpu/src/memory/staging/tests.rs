use millstream_core::{Command, DType, HostBytes, Layout, Operand, RawBuffer};

use super::*;
use crate::fake::Fake;

#[test]
fn transfers_do_not_overlap_and_are_aligned() {
    let mut layout = StagingLayout::default();
    assert_eq!([1, 256, 257, 0].map(|bytes| layout.add(bytes)), [0, 256, 512, 1024]);
    assert_eq!(layout.total(), 1024);
}

#[test]
fn transfers_find_the_same_offsets_every_time() {
    let operand = |bytes: usize| {
        let layout = Layout::contiguous(DType::U8, &[bytes]).unwrap();
        Operand::new(RawBuffer { address: 0, bytes }, layout)
    };
    let commands = [
        Command::upload(operand(300), HostBytes::zeroed(300)).unwrap(),
        Command::fill(operand(8), 0i64).unwrap(),
        Command::download(HostBytes::zeroed(5), operand(5)).unwrap(),
    ];
    let mut found = Vec::new();
    let layout = transfers::<Fake>(0, &commands, |index, _, offset| found.push((index, offset)));
    let total = layout.total();
    assert_eq!((found, total), (vec![(0, 0), (2, 512)], 768));
}

#[test]
fn small_pieces_are_kept_and_large_ones_go() {
    assert!(keeps(KEPT_BYTES) && !keeps(KEPT_BYTES + 1));
    assert_eq!((rounded(1), rounded(100_000)), (64 << 10, 128 << 10));
    assert_eq!(rounded(5 << 20), 8 << 20);
    assert_eq!(rounded(40 << 20), 40 << 20);
}
