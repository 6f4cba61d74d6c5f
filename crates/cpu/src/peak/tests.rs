use super::*;

/// How slow a machine may be, emulated or busy, is not for a test to say. One that is too fast has left
/// the work out.
#[test]
fn peaks_are_rates_of_work_that_was_done() {
    let flops = flops(1);
    assert!(flops > 0.0 && flops < 1e13, "{flops:e}");
    let mut memory = Memory::of_bytes(2, 4 << 20);
    for traffic in Traffic::ALL {
        let bandwidth = memory.bandwidth(traffic);
        assert!(bandwidth > 0.0 && bandwidth < 1e13, "{traffic:?}: {bandwidth:e}");
    }
}
