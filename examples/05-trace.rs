//! Takes a profile of a few threads and writes it for Perfetto (ui.perfetto.dev) or chrome://tracing.

use millstream::command::{Activation, Command, Distribution};
use millstream::memory::Layout;
use millstream::{DType, Device, Result};

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "trace.json".into());
    let device = Device::cpu()?;
    let layout = Layout::contiguous(DType::F32, &[128, 128])?;
    device.profiler().start();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                scope.spawn(move || -> Result<()> {
                    let stream = device.stream()?;
                    let a = stream.allocate(layout.dense_bytes())?;
                    let b = stream.allocate(layout.dense_bytes())?;
                    let (a, b) = (a.operand(layout), b.operand(layout));
                    let normal = Distribution::Normal { mean: 0.0, deviation: 1.0 };
                    for _ in 0..10 {
                        let _span = device.profiler().span("call");
                        stream.record(Command::random(a, normal, seed, 0)?)?;
                        stream.record(Command::matmul(
                            b,
                            a,
                            a,
                            None,
                            None,
                            0.1,
                            Activation::Tanh,
                        )?)?;
                        stream.record(Command::softmax(a, b, 1, false)?)?;
                        stream.synchronize()?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a thread panicked"))
    })?;
    device.profiler().stop();
    let trace = device.profiler().take_trace();
    print!("{}", trace.summary());
    trace.export(&path)?;
    println!("\nwrote {path}");
    Ok(())
}
