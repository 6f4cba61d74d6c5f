//! A model of an ONNX file, called by eight threads with batches of different sizes.
//!
//! `cargo run --release --example 12-onnx-model [MODEL.onnx]`; the model must take one input of two columns, as
//! `examples/models/classifier.onnx` does.

use millstream::{Device, Result, Session, Tensor};

const THREADS: usize = 8;

fn main() -> Result<()> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/models/classifier.onnx");
    let path = std::env::args().nth(1).unwrap_or_else(|| own.into());
    let device = Device::best()?;
    let session = Session::open(path, &device)?;
    for port in session.inputs() {
        println!("takes {}: {}", port.name, port.declared);
    }
    for port in session.outputs() {
        println!("gives {}: {}", port.name, port.declared);
    }

    // Points on a circle, as many as the thread has in its batch.
    let classify = |thread: usize| -> Result<Vec<i64>> {
        let batch = thread + 1;
        let angle = |at: usize| std::f32::consts::TAU * at as f32 / batch as f32;
        let points: Vec<f32> =
            (0..batch).flat_map(|at| [angle(at).cos(), angle(at).sin()]).collect();
        let points = Tensor::from_slice(&points, &[batch, 2], &device)?;
        // New shapes are compiled once, by the thread that comes first; the others go on meanwhile.
        let outputs = session.run([("points", &points)])?;
        outputs.tensor("label")?.to_vec::<i64>()
    };

    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || classify(thread))).collect();
        for (thread, caller) in threads.into_iter().enumerate() {
            let labels = caller.join().expect("a thread panicked")?;
            println!("thread {thread}: {labels:?}");
            // The same as alone.
            assert_eq!(labels, classify(thread)?);
        }
        Ok::<_, millstream::Error>(())
    })?;
    println!("{}", session.stats());
    Ok(())
}
