use millstream_core::{Command, DType, Layout, Operand};

use super::*;

fn operand(address: usize, elements: usize) -> Operand<RawBuffer> {
    let layout = Layout::contiguous(DType::F32, &[elements]).unwrap();
    Operand::new(RawBuffer { address, bytes: layout.dense_bytes() }, layout)
}

fn copy(to: usize, from: usize) -> BoundCommand {
    Command::copy(operand(to, 16), operand(from, 16)).unwrap()
}

/// Which of some copies wait, each with one launch.
fn waits(copies: &[(usize, usize)]) -> Vec<bool> {
    let mut hazards = Hazards::default();
    let mut one = |&(to, from): &(usize, usize)| {
        hazards.begin(&copy(to, from));
        hazards.waits()
    };
    copies.iter().map(&mut one).collect()
}

#[test]
fn a_command_waits_for_what_it_reads_and_for_who_reads_what_it_writes() {
    // Read after write, write after read, write after write.
    assert_eq!(waits(&[(0x100, 0x200), (0x300, 0x100)]), [false, true]);
    assert_eq!(waits(&[(0x100, 0x200), (0x200, 0x300)]), [false, true]);
    assert_eq!(waits(&[(0x100, 0x200), (0x100, 0x300)]), [false, true]);
    // The last byte counts, the one behind it does not.
    assert_eq!(waits(&[(0x100, 0x200), (0x300, 0x13f)]), [false, true]);
    assert_eq!(waits(&[(0x100, 0x200), (0x300, 0x140)]), [false, false]);
}

#[test]
fn commands_that_share_what_they_read_do_not_wait() {
    assert_eq!(waits(&[(0x100, 0x800), (0x200, 0x800), (0x300, 0x800)]), [false; 3]);
}

#[test]
fn after_a_wait_what_came_before_it_is_over() {
    let found = waits(&[(0x100, 0x800), (0x200, 0x100), (0x300, 0x100), (0x400, 0x200)]);
    // The third reads what the first wrote, which has ended; the fourth reads what the second wrote, which has not.
    assert_eq!(found, [false, true, false, true]);
}

#[test]
fn launches_of_one_command_come_in_order_and_scratch_memory_is_one() {
    let mut hazards = Hazards::default();
    let scratch = RawBuffer { address: 0x10000, bytes: 0x100 };
    hazards.begin(&copy(0x100, 0x200));
    hazards.add_scratch(scratch);
    assert_eq!([hazards.waits(), hazards.waits()], [false, true]);
    // Other operands, the same scratch memory.
    hazards.begin(&copy(0x300, 0x400));
    hazards.add_scratch(scratch);
    assert!(hazards.waits());
    // Neither.
    hazards.begin(&copy(0x500, 0x600));
    assert!(!hazards.waits());
}

#[test]
fn what_was_taken_back_and_what_is_too_much_is_waited_for() {
    let mut hazards = Hazards::default();
    hazards.begin(&copy(0x100, 0x200));
    hazards.set_unknown();
    assert!(hazards.waits());
    let many: Vec<(usize, usize)> = (0..MAX_USES).map(|i| (i * 0x1000, 1 << 40)).collect();
    let found = waits(&many);
    assert_eq!(found.iter().filter(|waits| **waits).count(), 1, "{found:?}");
}
