//! Results cross threads without ceremony: record here, use there, drop anywhere.

use std::sync::mpsc;

use millstream::command::{Command, UnaryOp};
use millstream::memory::{Buffer, Layout};
use millstream::{DType, Device, Result};

fn main() -> Result<()> {
    let device = Device::cpu()?;
    let layout = Layout::contiguous(DType::F32, &[3])?;
    let (send, receive) = mpsc::channel::<Buffer>();

    let producer = std::thread::spawn(move || -> Result<()> {
        for round in 1..=3 {
            let stream = device.stream()?;
            let buffer = stream.allocate(layout.dense_bytes())?;
            stream.record(Command::fill(buffer.operand(layout), round * 100)?)?;
            // Only recorded, not finished, not even submitted. The consumer's stream sees to it.
            let _ = send.send(buffer);
        }
        Ok(())
    });

    for buffer in receive {
        let stream = device.stream()?;
        let roots = stream.allocate(layout.dense_bytes())?;
        let (to, from) = (roots.operand(layout), buffer.operand(layout));
        stream.record(Command::unary(UnaryOp::Sqrt, to, from)?)?;
        // The memory goes back to the producer's stream, which waits for this use before it takes it.
        drop(buffer);
        println!("{:?}", stream.download(roots.operand(layout))?.read::<f32>()?);
    }
    producer.join().expect("the producer panicked")
}
