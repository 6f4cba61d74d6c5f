//! Faults and overlap on a GPU. Every test says so and passes when there is no GPU, unless
//! `MILLSTREAM_REQUIRE_CUDA` is set. `MILLSTREAM_ROUNDS` is how often the rare things are tried.

#![cfg(feature = "cuda")]

mod gpu;

use millstream::{
    BinaryOp, Buffer, Command, DType, Device, Error, HealthState, Layout, Result, Stream, Tensor,
};

fn row(count: usize) -> Layout {
    Layout::contiguous(DType::F32, &[count]).unwrap()
}

fn matrix(rows: usize, columns: usize) -> Layout {
    Layout::contiguous(DType::F32, &[rows, columns]).unwrap()
}

fn rounds(usual: usize) -> usize {
    std::env::var("MILLSTREAM_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn filled(stream: &Stream, layout: Layout, value: f32) -> Result<Buffer> {
    let buffer = stream.allocate(layout.dense_bytes())?;
    stream.record(Command::fill(buffer.operand(layout), value)?)?;
    Ok(buffer)
}

fn read(stream: &Stream, buffer: &Buffer, count: usize) -> Result<Vec<f32>> {
    stream.download(buffer.operand(row(count)))?.read::<f32>()
}

/// Rows of a table by an index that it does not have.
struct Bad {
    table: Buffer,
    ids: Buffer,
}

impl Bad {
    fn new(stream: &Stream) -> Result<Self> {
        let table = filled(stream, matrix(4, 64), 1.0)?;
        let ids = stream.allocate(8)?;
        stream.upload(ids.operand(Layout::contiguous(DType::I64, &[1])?), &[99i64])?;
        table.settle()?;
        ids.settle()?;
        Ok(Self { table, ids })
    }

    fn record(&self, stream: &Stream, to: &Buffer) -> Result<()> {
        let ids = self.ids.operand(Layout::contiguous(DType::I64, &[1])?);
        let (to, table) = (to.operand(matrix(1, 64)), self.table.operand(matrix(4, 64)));
        stream.record(Command::embedding(to, table, ids)?).map(drop)
    }
}

fn add(stream: &Stream, to: &Buffer, from: &Buffer) -> Result<()> {
    let (to, from) = (to.operand(row(64)), from.operand(row(64)));
    stream.record(Command::binary(BinaryOp::Add, to, from, from)?).map(drop)
}

fn is_fault<T: std::fmt::Debug>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Fault { command: "embedding", message, .. }) if message.contains("index"))
}

/// Before, between and after what fails, on its stream and on others, replayed and not.
#[test]
fn an_index_out_of_range_fails_what_depends_on_it_and_nothing_else() {
    let device = gpu_or_skip!();
    let (bad_stream, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let bad = Bad::new(&bad_stream).unwrap();
    for round in 0..8 {
        let before = filled(&bad_stream, row(64), 2.0).unwrap();
        let [failed, computed] = [(); 2].map(|()| bad_stream.allocate(256).unwrap());
        bad.record(&bad_stream, &failed).unwrap();
        add(&bad_stream, &computed, &failed).unwrap();
        let second = bad_stream.allocate(256).unwrap();
        bad.record(&bad_stream, &second).unwrap();
        let after = bad_stream.allocate(256).unwrap();
        add(&bad_stream, &after, &before).unwrap();
        let elsewhere = other.allocate(256).unwrap();
        add(&other, &elsewhere, &computed).unwrap();
        let good = other.allocate(256).unwrap();
        add(&other, &good, &after).unwrap();
        assert_eq!(read(&other, &good, 64).unwrap(), [8.0; 64], "round {round}");
        assert!(is_fault(&read(&other, &elsewhere, 64)), "round {round}");
        for buffer in [&failed, &computed, &second] {
            assert!(is_fault(&read(&bad_stream, buffer, 64)), "round {round}");
        }
        assert_eq!(read(&bad_stream, &before, 64).unwrap(), [2.0; 64]);
        assert_eq!(read(&bad_stream, &after, 64).unwrap(), [4.0; 64]);
    }
    device.synchronize().expect("everything was reported");
    assert_eq!(device.health().state, HealthState::Healthy);
}

/// x fails on one stream, y is made of it on another, z of y on the first again; all submitted before the
/// fault is seen. Both streams go on.
#[test]
fn a_fault_in_a_cycle_of_streams_is_reported_and_both_go_on() {
    let device = gpu_or_skip!();
    let (a, b) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let bad = Bad::new(&b).unwrap();
    let large = row(1 << 24);
    let slow = filled(&b, large, 1.0).unwrap();
    for round in 0..rounds(20) {
        // A while, so that everything below is submitted before the fault is seen.
        for _ in 0..4 {
            let operand = slow.operand(large);
            b.record(Command::binary(BinaryOp::Max, operand, operand, operand).unwrap()).unwrap();
        }
        let [x, z] = [(); 2].map(|()| b.allocate(256).unwrap());
        let y = a.allocate(256).unwrap();
        bad.record(&b, &x).unwrap();
        b.flush().unwrap();
        add(&a, &y, &x).unwrap();
        a.flush().unwrap();
        add(&b, &z, &y).unwrap();
        b.flush().unwrap();
        assert!(is_fault(&read(&b, &z, 64)), "round {round}");
        assert!(is_fault(&read(&a, &y, 64)), "round {round}");
        for stream in [&a, &b] {
            let own = filled(stream, row(64), 3.0).unwrap();
            assert_eq!(read(stream, &own, 64).unwrap(), [3.0; 64], "round {round}");
        }
    }
}

/// A matrix is written, then comes a Command that has nothing to do, then a product reads the matrix: it
/// must not begin to read before it is written.
#[test]
fn a_product_after_a_command_without_launches_reads_what_was_written() {
    let device = gpu_or_skip!();
    let shapes =
        [(1, 4096, 4096), (1, 1024, 16384), (4, 4096, 4096), (32, 512, 512), (64, 256, 256)];
    for (rows, inner, outer) in shapes {
        overlap(&device, rows, inner, outer, rounds(50)).unwrap();
    }
}

fn overlap(
    device: &Device,
    rows: usize,
    inner: usize,
    outer: usize,
    rounds: usize,
) -> millstream::Result<()> {
    let x = Tensor::ones(&[rows, inner], DType::F32, device)?.settle()?;
    let base = Tensor::zeros(&[outer, inner], DType::F32, device)?.settle()?;
    let none = Tensor::zeros(&[0, 3], DType::F32, device)?.settle()?;
    let steps: Vec<Tensor> = (0..8)
        .map(|step| Tensor::full(&[], 1.0 + step as f64, DType::F32, device)?.settle())
        .collect::<millstream::Result<_>>()?;
    for round in 0..rounds {
        let w = base.add(&steps[round % 8])?;
        let _empty = none.exp()?;
        let y = x.matmul(&w.t()?)?.to_vec::<f32>()?;
        let expected = inner as f32 * (1.0 + (round % 8) as f32);
        let wrong = y.iter().filter(|&&found| found != expected).count();
        assert_eq!(wrong, 0, "{rows}x{inner}x{outer}, round {round}");
    }
    Ok(())
}
