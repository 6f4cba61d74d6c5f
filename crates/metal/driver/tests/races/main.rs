//! What ThreadSanitizer must see, and what it must not: `METAL_DRIVER_RACE` plants one mistake.

#[path = "../common/mod.rs"]
mod common;

use common::gpu::*;
use millstream_metal_driver::{control, rules};
use objc2_metal::*;

const GROUPS: usize = COUNT.div_ceil(128);

/// What can be planted. The last is no race: the driver's rule notices it.
const MISTAKES: &[&str] = &[
    "unwaited-queue",
    "unwaited-result",
    "no-barrier",
    "no-fence",
    "early-reuse",
    "early-release",
];

fn main() {
    let planted = std::env::var("METAL_DRIVER_RACE").unwrap_or_default();
    assert!(
        planted.is_empty() || MISTAKES.contains(&planted.as_str()),
        "{planted} is no mistake that this program knows"
    );
    control::set_seed(3);
    let gpu = Gpu::open();
    let scale = gpu.pipeline("scale").unwrap();
    let [first, second] = [(); 2].map(|()| Stream::new(&gpu));
    let [a, b, c] = [(); 3].map(|()| gpu.floats());
    for round in 0..10 {
        let values = write(&a, round);
        let whole = first.submit(&[], |encoder| {
            dispatch(encoder, &scale, [&a, &b], params(2.0), GROUPS);
            if planted != "no-barrier" {
                encoder.memoryBarrierWithScope(MTLBarrierScope::Buffers);
            }
            dispatch(encoder, &scale, [&b, &c], params(2.0), GROUPS);
        });
        if planted == "early-reuse" {
            // The next numbers go where the batch still reads those before.
            write(&a, round + 1);
        }
        let waits = [(&first, whole)];
        let waits = if planted == "unwaited-queue" { &[][..] } else { &waits };
        second.submit(waits, |encoder| dispatch(encoder, &scale, [&c, &b], params(0.5), GROUPS));
        // The same queue, and memory that Metal does not track: only the fence orders the two.
        let fenced = planted != "no-fence";
        let last = second.submit_fenced(fenced, &[], |encoder| {
            dispatch(encoder, &scale, [&b, &c], params(1.0), GROUPS)
        });
        if planted == "unwaited-result" {
            // The memory is asked, and not the event: whatever the schedule, a read and a write meet unordered.
            let value = c.contents().cast::<f32>().as_ptr();
            // SAFETY: the buffer lives; that the GPU writes it at this time is the mistake.
            while unsafe { value.read_volatile() } != 2.0 * values[0] {
                std::hint::spin_loop();
            }
        } else {
            second.wait(last);
        }
        if planted == "early-release" {
            released_at_the_event(&gpu, &first, &scale, &b);
        }
        let found = read(&c);
        if planted.is_empty() {
            assert!(values.iter().zip(&found).all(|(x, y)| 2.0 * x == *y), "round {round}");
        }
        std::hint::black_box(found);
        first.drain();
        second.drain();
    }
    control::set_seed(0);
    drop((a, b, c, first, second, scale, gpu));
    control::expect_nothing_left(std::time::Duration::from_secs(20));
    let broken = rules::take();
    assert!(broken.is_empty(), "{broken:?}");
    println!("races: clean");
}

/// The event of a batch comes before its command buffer is through, and only its handler says that a buffer may go.
fn released_at_the_event(
    gpu: &Gpu,
    stream: &Stream,
    scale: &Ref<dyn MTLComputePipelineState>,
    from: &Ref<dyn MTLBuffer>,
) {
    let gone = gpu.floats();
    let done = stream.submit(&[], |encoder| {
        dispatch(encoder, scale, [from, &gone], params(1.0), GROUPS);
    });
    stream.wait(done);
    drop(gone);
}
