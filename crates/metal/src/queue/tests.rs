use millstream_core::Config;

use super::*;

/// A command buffer that waits for an event is in flight when its queue is closed. Who gets the objects next would take its end for
/// one of his own.
#[test]
fn a_closed_queue_gives_its_objects_away_when_all_of_it_was_handled() {
    let gpu = Gpu::open(0, &Config::default()).unwrap();
    let new = || MetalQueue::new(gpu, 16).unwrap();
    let (queue, encoder) = new();
    let gate = gpu.device.newSharedEvent().unwrap();
    pooled(|| {
        let commands = queue.command_buffer().unwrap();
        commands.encodeWaitForEvent_value(as_event(&gate), 1);
        queue.commit(&commands, &encoder, Completion::Batch(1));
    });
    queue.close();
    let (other, _other) = new();
    assert!(!std::ptr::eq(queue.objects, other.objects));
    assert_eq!(other.completed(), 0);
    gate.setSignaledValue(1);
    while queue.timeline.handled() < queue.timeline.committed() {
        queue.wait(1, WAIT_SLICE);
        std::thread::yield_now();
    }
    assert_eq!((queue.completed(), other.completed()), (1, 0));
    // Its objects are spare now, or are about to be.
    let (next, _next) = new();
    assert!(std::ptr::eq(queue.objects, next.objects));
    assert_eq!(next.completed(), 0);
}
