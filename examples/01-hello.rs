//! A first computation: allocate, upload, compute, read back.

use millstream::{BinaryOp, Command, DType, Device, Layout, Result};

fn main() -> Result<()> {
    let device = Device::cpu()?;
    println!("on {}", device.info().description);

    let layout = Layout::contiguous(DType::F32, &[4])?;
    let (a, b) = (device.allocate(layout.dense_bytes())?, device.allocate(layout.dense_bytes())?);

    // Nothing runs yet: commands gather on the stream until somebody needs a result.
    let stream = device.stream()?;
    stream.upload(a.operand(layout), &[1f32, 2.0, 3.0, 4.0])?;
    stream.record(Command::fill(b.operand(layout), 10.0f32)?)?;
    let (a, b) = (a.operand(layout), b.operand(layout));
    stream.record(Command::binary(BinaryOp::Mul, b, a, b)?)?;

    println!("{:?}", stream.download(b)?.read::<f32>()?);
    Ok(())
}
