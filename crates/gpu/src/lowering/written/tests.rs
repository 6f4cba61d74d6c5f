use super::*;

const READ: RawBuffer = RawBuffer { address: 1000, bytes: 100 };

fn buffer(address: usize, end: usize) -> RawBuffer {
    RawBuffer { address, bytes: end - address }
}

#[test]
fn a_buffer_reaches_what_it_shares_a_byte_with() {
    let reaches = |address, end| {
        let mut written = Written::default();
        written.replace(&[buffer(address, end)]);
        written.may_reach(READ)
    };
    assert!(reaches(0, 1001) && reaches(1099, 2000) && reaches(1050, 1051));
    assert!(!reaches(0, 1000) && !reaches(1100, 2000));
}

#[test]
fn a_kernel_of_ours_ends_what_was_before_and_a_library_does_not() {
    let mut written = Written::default();
    written.replace(&[buffer(1000, 1100)]);
    written.add(&[buffer(5000, 6000)]);
    assert!(written.may_reach(READ));
    written.replace(&[buffer(5000, 6000)]);
    assert!(!written.may_reach(READ));
}

#[test]
fn what_is_not_known_reaches_everything() {
    let mut written = Written::default();
    for _ in 0..=MOST_BUFFERS {
        assert!(!written.may_reach(READ));
        written.add(&[buffer(0, 1)]);
    }
    assert!(written.may_reach(READ));
    written.clear();
    assert!(!written.may_reach(READ));
    written.set_unknown();
    assert!(written.may_reach(READ));
}
