//! The CUDA device as users see it. Every test says so and passes when there is no GPU, unless
//! `MILLSTREAM_REQUIRE_CUDA` is set.

#![cfg(feature = "cuda")]

mod gpu;

use std::sync::Barrier;
use std::time::Duration;

use half::f16;
use millstream::{
    Activation, BinaryOp, Buffer, Command, CoordinateMode, DType, Device, Distribution, Error,
    Event, HealthState, Layout, MAX_RANK, PadMode, PadParams, ResizeMode, ResizeParams, Result,
    Scalar, Stream, UnaryOp,
};

fn row(count: usize) -> Layout {
    Layout::contiguous(DType::F32, &[count]).unwrap()
}

fn matrix(rows: usize, columns: usize) -> Layout {
    Layout::contiguous(DType::F32, &[rows, columns]).unwrap()
}

fn filled(stream: &Stream, layout: Layout, values: &[f32]) -> Result<Buffer> {
    let buffer = stream.allocate(layout.dense_bytes())?;
    stream.upload(buffer.operand(layout), values)?;
    Ok(buffer)
}

/// Two layers on buffers that stay: `relu(x w + b) w`. The same batch every time but for what `x` is.
struct Network {
    x: Buffer,
    w: Buffer,
    b: Buffer,
    hidden: Buffer,
    y: Buffer,
    size: usize,
}

impl Network {
    fn new(stream: &Stream, size: usize) -> Result<Self> {
        let square = matrix(size, size);
        let w = stream.allocate(square.dense_bytes())?;
        let normal = Distribution::Normal { mean: 0.0, deviation: (size as f32).sqrt().recip() };
        stream.record(Command::random(w.operand(square), normal, 7, 0)?)?;
        let bias: Vec<f32> = (0..size).map(|i| (i % 5) as f32 * 0.1 - 0.2).collect();
        let b = filled(stream, row(size), &bias)?;
        w.settle()?;
        b.settle()?;
        let bytes = row(size).dense_bytes();
        let [x, hidden, y] = [(); 3].map(|()| stream.allocate(bytes));
        Ok(Self { x: x?, w, b, hidden: hidden?, y: y?, size })
    }

    fn call(&self, stream: &Stream, input: &[f32]) -> Result<Vec<f32>> {
        let (one, square) = (matrix(1, self.size), matrix(self.size, self.size));
        stream.upload(self.x.operand(one), input)?;
        stream.record(Command::matmul(
            self.hidden.operand(one),
            self.x.operand(one),
            self.w.operand(square),
            Some(self.b.operand(row(self.size))),
            None,
            1.0,
            Activation::Relu,
        )?)?;
        stream.record(Command::matmul(
            self.y.operand(one),
            self.hidden.operand(one),
            self.w.operand(square),
            None,
            None,
            1.0,
            Activation::None,
        )?)?;
        stream.download(self.y.operand(one))?.read()
    }

    fn input(&self, seed: usize) -> Vec<f32> {
        (0..self.size).map(|i| ((i * 31 + seed * 17) % 29) as f32 / 29.0 - 0.5).collect()
    }

    /// The right answer, in `f64`.
    fn expected(&self, weight: &[f32], input: &[f32]) -> Vec<f64> {
        let product = |row: &[f64]| -> Vec<f64> {
            let column = |j: usize| {
                row.iter().enumerate().map(|(i, x)| x * f64::from(weight[i * self.size + j])).sum()
            };
            (0..self.size).map(column).collect()
        };
        let input: Vec<f64> = input.iter().copied().map(f64::from).collect();
        let hidden: Vec<f64> = product(&input)
            .into_iter()
            .enumerate()
            .map(|(i, x)| (x + f64::from((i % 5) as f32 * 0.1 - 0.2)).max(0.0))
            .collect();
        product(&hidden)
    }
}

fn assert_near(got: &[f32], expected: &[f64]) {
    let scale = expected.iter().fold(1e-3, |most: f64, value| most.max(value.abs()));
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        let off = (f64::from(*got) - expected).abs();
        assert!(off < 1e-5 * scale, "element {index}: {got}, expected {expected}");
    }
}

#[test]
fn replayed_batches_give_the_answers_of_new_inputs() {
    let device = gpu_or_skip!();
    let stream = device.stream().unwrap();
    // Two plans that come in turn, and each call with another input.
    let networks = [Network::new(&stream, 64).unwrap(), Network::new(&stream, 96).unwrap()];
    let weights = networks.each_ref().map(|network| {
        let layout = matrix(network.size, network.size);
        stream.download(network.w.operand(layout)).unwrap().read::<f32>().unwrap()
    });
    for call in 0..100 {
        for (network, weight) in networks.iter().zip(&weights) {
            let input = network.input(call);
            let got = network.call(&stream, &input).unwrap();
            assert_near(&got, &network.expected(weight, &input));
        }
    }
}

#[test]
fn replayed_batches_have_the_bits_of_the_first() {
    let device = gpu_or_skip!();
    let stream = device.stream().unwrap();
    let network = Network::new(&stream, 128).unwrap();
    let input = network.input(3);
    let first = network.call(&stream, &input).unwrap();
    for call in 2..=100 {
        assert_eq!(network.call(&stream, &input).unwrap(), first, "call {call}");
    }
}

#[test]
fn resizes_and_paddings_are_replayed_with_new_inputs() {
    let device = gpu_or_skip!();
    let stream = device.stream().unwrap();
    let [x, wide, padded] = [4, 8, 10].map(|count| stream.allocate(count * 4).unwrap());
    let mut scales = [1.0; MAX_RANK];
    scales[0] = 2.0;
    let resize = ResizeParams {
        mode: ResizeMode::Linear,
        coordinates: CoordinateMode::HalfPixel,
        scales,
        region: [(0.0, 1.0); MAX_RANK],
        extrapolation: 0.0,
        exclude_outside: false,
        antialias: false,
        sizes: [1; 8],
    };
    let mut pad = PadParams {
        mode: PadMode::Constant(Scalar::Float(9.0)),
        before: [0; MAX_RANK],
        after: [0; MAX_RANK],
    };
    (pad.before[0], pad.after[0]) = (1, 1);
    let before = stream.counters().replays;
    for call in 0..20 {
        let v = call as f32;
        stream.upload(x.operand(row(4)), &[v, v + 4.0, v, v + 4.0]).unwrap();
        let (from, to) = (x.operand(row(4)), wide.operand(row(8)));
        stream.record(Command::resize(to, from, resize).unwrap()).unwrap();
        stream.record(Command::pad(padded.operand(row(10)), to, pad).unwrap()).unwrap();
        let got = stream.download(padded.operand(row(10))).unwrap().read::<f32>().unwrap();
        let between = [0.0, 1.0, 3.0, 3.0, 1.0, 1.0, 3.0, 4.0].map(|part| v + part);
        let expected: Vec<f32> = [9.0].into_iter().chain(between).chain([9.0]).collect();
        assert_eq!(got, expected, "call {call}");
    }
    assert!(stream.counters().replays - before >= 10, "{:?}", stream.counters());
}

#[test]
fn one_batch_may_be_in_flight_many_times() {
    let device = gpu_or_skip!();
    let stream = device.stream().unwrap();
    let x = stream.allocate(row(1000).dense_bytes()).unwrap();
    let mut downloads = Vec::new();
    for call in 0..200 {
        stream.upload(x.operand(row(1000)), &[call as f32; 1000]).unwrap();
        let operand = x.operand(row(1000));
        stream.record(Command::unary(UnaryOp::Square, operand, operand).unwrap()).unwrap();
        downloads.push(stream.download(operand).unwrap());
        stream.flush().unwrap();
    }
    for (call, download) in downloads.into_iter().enumerate() {
        let expected = (call * call) as f32;
        assert!(download.read::<f32>().unwrap().iter().all(|&value| value == expected), "{call}");
    }
}

#[test]
fn thirty_one_threads_get_their_own_answers() {
    let device = gpu_or_skip!();
    let barrier = Barrier::new(31);
    let shared = Network::new(&device.stream().unwrap(), 128).unwrap();
    let weight = {
        let stream = device.stream().unwrap();
        stream.download(shared.w.operand(matrix(128, 128))).unwrap().read::<f32>().unwrap()
    };
    std::thread::scope(|scope| {
        for thread in 0..31 {
            let (barrier, shared, weight) = (&barrier, &shared, &weight);
            scope.spawn(move || {
                let stream = device.stream().unwrap();
                let bytes = row(128).dense_bytes();
                let [x, hidden, y] = [(); 3].map(|()| stream.allocate(bytes).unwrap());
                let (w, b) = (shared.w.clone(), shared.b.clone());
                let own = Network { x, w, b, hidden, y, size: 128 };
                barrier.wait();
                for call in 0..200 {
                    let input = own.input(thread * 1000 + call);
                    let got = own.call(&stream, &input).unwrap();
                    assert_near(&got, &own.expected(weight, &input));
                }
            });
        }
    });
}

#[test]
fn large_and_strided_transfers_arrive() {
    let device = gpu_or_skip!();
    let stream = device.stream().unwrap();
    for count in [1, 3, 1000, 16 << 10, (16 << 10) + 1, 3 << 20] {
        let values: Vec<f32> = (0..count).map(|i| i as f32).collect();
        let buffer = filled(&stream, row(count), &values).unwrap();
        let got = stream.download(buffer.operand(row(count))).unwrap().read::<f32>().unwrap();
        assert!(got == values, "{count} elements");
        let from_second = row(count).slice(0, count / 2, count - count / 2, 1).unwrap();
        let got = stream.download(buffer.operand(from_second)).unwrap().read::<f32>().unwrap();
        assert!(got == values[count / 2..], "the second half of {count} elements");
    }
    let (rows, columns) = (37, 53);
    let transposed = matrix(columns, rows).transpose(0, 1).unwrap();
    let buffer = stream.allocate(transposed.dense_bytes()).unwrap();
    let values: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
    stream.upload(buffer.operand(transposed), &values).unwrap();
    let same = stream.download(buffer.operand(transposed)).unwrap();
    let lying = stream.download(buffer.operand(matrix(columns, rows))).unwrap();
    assert!(same.read::<f32>().unwrap() == values);
    let lying = lying.read::<f32>().unwrap();
    assert!((0..rows * columns).all(|i| lying[i] == values[i % rows * columns + i / rows]));
}

/// Sums of 16-bit numbers are kept in 32 bits until an activation was applied: too many for one go.
#[test]
fn large_products_of_16_bits_are_computed_in_pieces() {
    let device = gpu_or_skip!();
    let stream = device.stream().unwrap();
    let half = |shape: &[usize]| Layout::contiguous(DType::F16, shape).unwrap();
    let upload = |shape: &[usize], value: &dyn Fn(usize) -> f32| {
        let layout = half(shape);
        let values: Vec<f16> = (0..layout.elements()).map(|at| f16::from_f32(value(at))).collect();
        let buffer = stream.allocate(layout.dense_bytes()).unwrap();
        stream.upload(buffer.operand(layout), &values).unwrap();
        buffer
    };
    const DEPTH: usize = 16;
    for (batch, rows, columns) in [(1, 4200, 1024), (3, 1500, 1024), (2, 1100, 2047)] {
        let shape = [batch, rows, columns];
        let sum = |row: usize| (row % 7) as f32 - 3.0;
        let a = upload(&[batch, rows, DEPTH], &|at| sum(at / DEPTH));
        let b = upload(&[DEPTH, columns], &|_| 1.0 / DEPTH as f32);
        let bias = upload(&[columns], &|at| (at % 5) as f32 - 2.5);
        let dst = stream.allocate(half(&shape).dense_bytes()).unwrap();
        let activation = Activation::LeakyRelu { slope: 0.5 };
        // Once step by step, and then as a graph.
        for _ in 0..3 {
            stream.record(Command::fill(dst.operand(half(&shape)), 99.0f32).unwrap()).unwrap();
            let command = Command::matmul(
                dst.operand(half(&shape)),
                a.operand(half(&[batch, rows, DEPTH])),
                b.operand(half(&[DEPTH, columns])),
                Some(bias.operand(half(&[columns]))),
                None,
                1.0,
                activation,
            );
            stream.record(command.unwrap()).unwrap();
            let got = stream.download(dst.operand(half(&shape))).unwrap();
            stream.synchronize().unwrap();
            for (at, got) in got.read::<f16>().unwrap().into_iter().enumerate() {
                let x = sum(at / columns) + (at % columns % 5) as f32 - 2.5;
                let right = if x < 0.0 { 0.5 * x } else { x };
                assert_eq!(got.to_f32(), right, "element {at} of {shape:?}");
            }
        }
    }
}

#[test]
fn chains_across_streams_come_in_order() {
    let device = gpu_or_skip!();
    let streams: Vec<Stream> = (0..8).map(|_| Stream::new(&device).unwrap()).collect();
    let layout = row(10_000);
    for round in 0..50 {
        let buffer = streams[0].allocate(layout.dense_bytes()).unwrap();
        let operand = buffer.operand(layout);
        streams[0].record(Command::fill(operand, round as f32).unwrap()).unwrap();
        for hop in 1..64 {
            let stream = &streams[hop * 5 % 8];
            let one = stream.allocate(layout.dense_bytes()).unwrap();
            stream.record(Command::fill(one.operand(layout), 1.0f32).unwrap()).unwrap();
            let add = Command::binary(BinaryOp::Add, operand, operand, one.operand(layout));
            stream.record(add.unwrap()).unwrap();
        }
        let last = streams[3].download(operand).unwrap().read::<f32>().unwrap();
        assert!(
            last.iter().all(|&value| value == round as f32 + 63.0),
            "round {round}: {}",
            last[0]
        );
    }
}

#[test]
fn a_lack_of_memory_is_an_error_and_no_fault() {
    let device = gpu_or_skip!();
    let most = device.info().memory_bytes;
    assert!(matches!(device.allocate(most * 2), Err(Error::OutOfMemory { .. })));
    let mut held = Vec::new();
    let refused = loop {
        match device.allocate(8 << 30) {
            Ok(buffer) => held.push(buffer),
            Err(error) => break error,
        }
        assert!(held.len() < 1000);
    };
    assert!(matches!(refused, Error::OutOfMemory { .. }), "{refused}");
    drop(held);
    let stream = device.stream().unwrap();
    let buffer = filled(&stream, row(4), &[2.0; 4]).unwrap();
    assert_eq!(stream.download(buffer.operand(row(4))).unwrap().read::<f32>().unwrap(), [2.0; 4]);
    assert_eq!(device.health().state, HealthState::Healthy);
    device.close().unwrap();
}

#[test]
fn timed_events_use_the_clock_of_the_device() {
    let device = gpu_or_skip!();
    let stream = device.stream().unwrap();
    let started = std::time::Instant::now();
    let before = Event::timed(&stream).unwrap();
    let buffer = stream.allocate(row(1 << 20).dense_bytes()).unwrap();
    for _ in 0..20 {
        stream.record(Command::fill(buffer.operand(row(1 << 20)), 1.0f32).unwrap()).unwrap();
    }
    let after = Event::timed(&stream).unwrap();
    let elapsed = before.elapsed(&after).unwrap();
    // Within the host's time, but for the steps in which the device counts.
    let most = started.elapsed() + Duration::from_millis(1);
    assert!(elapsed > Duration::ZERO && elapsed <= most, "{elapsed:?}");
}

#[test]
fn the_profiler_shows_when_the_device_ran_what() {
    let device = gpu_or_skip!();
    let stream = Stream::new(&device).unwrap();
    let buffer = filled(&stream, row(1 << 20), &vec![1.0; 1 << 20]).unwrap();
    stream.synchronize().unwrap();
    device.profiler().start();
    let begun = millstream::profiler::now_ns();
    for _ in 0..4 {
        let operand = buffer.operand(row(1 << 20));
        stream.record(Command::unary(UnaryOp::Sqrt, operand, operand).unwrap()).unwrap();
    }
    stream.synchronize().unwrap();
    let ended = millstream::profiler::now_ns();
    device.profiler().stop();
    let spans: Vec<_> =
        device.profiler().take().into_iter().flat_map(|trace| trace.spans).collect();
    assert_eq!(spans.len(), 4);
    // The clocks are compared when the device is opened, less well on a busy machine. Were they not, they
    // would be years apart.
    let slack = 1_000_000_000;
    for pair in spans.windows(2) {
        assert!(pair[0].start_ns <= pair[0].end_ns && pair[0].end_ns <= pair[1].start_ns);
    }
    assert!(spans[0].start_ns < spans[3].end_ns);
    assert!(spans[0].start_ns + slack > begun && spans[3].end_ns < ended + slack);
}

#[test]
fn a_wait_ends_at_its_deadline_and_a_closed_device_says_so() {
    let device = gpu_or_skip!();
    let stream = device.stream().unwrap();
    let size = matrix(4096, 4096);
    let [a, b] = [(); 2].map(|()| stream.allocate(size.dense_bytes()).unwrap());
    stream.record(Command::fill(a.operand(size), 1.0f32).unwrap()).unwrap();
    // Long work, and longer each time until it is not done when it is asked for: this thread may be kept
    // from its core for any time in between.
    let timed_out = (0..6).map(|doubled| 40 << doubled).any(|products| {
        let mut last = stream.timepoint();
        for _ in 0..products {
            let (to, from) = (b.operand(size), a.operand(size));
            let product = Command::matmul(to, from, from, None, None, 1.0, Activation::None);
            last = stream.record(product.unwrap()).unwrap();
        }
        let waited = last.wait_within(Duration::from_micros(1));
        last.wait().unwrap();
        match waited {
            Ok(()) => false,
            Err(Error::Timeout { .. }) => true,
            Err(error) => panic!("{error}"),
        }
    });
    assert!(timed_out, "no wait ended at its deadline");
    device.close().unwrap();
    assert!(matches!(device.stream(), Err(Error::DeviceClosed { .. })));
    drop((a, b));
}

#[test]
fn a_second_device_on_the_same_gpu_works_beside_the_first() {
    let device = gpu_or_skip!();
    let other = Device::builder("cuda:0").open().unwrap();
    for device in [device, other] {
        let stream = device.stream().unwrap();
        let buffer = filled(&stream, row(4), &[3.0; 4]).unwrap();
        assert_eq!(
            stream.download(buffer.operand(row(4))).unwrap().read::<f32>().unwrap(),
            [3.0; 4]
        );
    }
    assert!(matches!(Device::open("cuda:999"), Err(Error::UnknownDevice { .. })));
}
