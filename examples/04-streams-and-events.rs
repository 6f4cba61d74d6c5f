//! Explicit streams, events between them, and the device's own clock.

use millstream::command::{Activation, Command, Distribution};
use millstream::memory::Layout;
use millstream::{DType, Device, Event, Result, Stream};

fn main() -> Result<()> {
    let device = Device::cpu()?;
    let (first, second) = (Stream::new(&device)?, Stream::new(&device)?);
    let layout = Layout::contiguous(DType::F32, &[256, 256])?;
    let (a, b) = (first.allocate(layout.dense_bytes())?, first.allocate(layout.dense_bytes())?);
    let (a, b) = (a.operand(layout), b.operand(layout));

    let normal = Distribution::Normal { mean: 0.0, deviation: 1.0 };
    first.record(Command::random(a, normal, 7, 0)?)?;
    let before = Event::timed(&first)?;
    first.record(Command::matmul(b, a, a, None, None, 1.0, Activation::None)?)?;
    let after = Event::timed(&first)?;

    // What the second stream records from here on waits for the event; this thread does not.
    after.wait_on(&second)?;
    // (Reading `b` there would wait for it anyway: events are for order that data does not show.)
    let sum = second.download(b)?.read::<f32>()?.iter().sum::<f32>();

    println!("sum {sum:.3}, the product took {:?} on the device", before.elapsed(&after)?);
    Ok(())
}
