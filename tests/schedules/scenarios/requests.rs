//! Threads that ask for answers of their own.

use crate::runtime::{Device, Error, Exhaustion, Layout, Result, Stream};
use crate::scene::{
    Numbers, Scene, Shared, download, is_fault, is_timeout, perhaps_wait, read, room, value,
    value_of,
};

/// A call: a value, some steps, and perhaps one that fails in between. What it should give is known.
fn call(device: &Device, shared: &Shared, numbers: &Numbers, v: u64, bad: bool) -> Result<u64> {
    let stream = device.stream()?;
    let mut current = value(&stream, v)?;
    let (steps, bad_at) = (1 + numbers.below(3), numbers.below(3));
    for step in 0..steps {
        let next = room(&stream)?;
        if bad && step == bad_at % steps {
            let point = shared.bad_copy(&stream, &next, &current)?;
            perhaps_wait(numbers, point, true);
        } else {
            // What reads a failed value is not run, and fails with it.
            let failed = bad && step > bad_at % steps;
            perhaps_wait(numbers, shared.step(&stream, &next, &current)?, failed);
        }
        if numbers.one_in(6) {
            stream.flush()?;
        }
        current = next;
    }
    read(&stream, &current).inspect(|&found| assert_eq!(found, v + steps, "another call's answer"))
}

/// Calls of one thread, of which some fail.
fn calls(device: &Device, shared: &Shared, thread: u64, numbers: &Numbers, count: u64, bad: u64) {
    for index in 0..count {
        let is_bad = bad > 0 && numbers.one_in(bad);
        match call(device, shared, numbers, thread * 100 + index * 4, is_bad) {
            Ok(_) => assert!(!is_bad, "a call that fails was answered"),
            Err(error) => assert!(is_bad && is_fault(&error), "call {index}: {error}"),
        }
    }
}

fn shared(device: &Device) -> Shared {
    Shared::new(&Stream::default_of(device).unwrap()).unwrap()
}

/// Some of the calls fail. They get the error, nobody else does.
pub fn faults(scene: &Scene) {
    let numbers = scene.numbers(0);
    let device = scene.open(1 + numbers.below(4) as u32);
    let shared = shared(&device);
    scene.threads(2 + numbers.below(4), |thread, numbers| {
        calls(&device, &shared, thread, numbers, 6, 3);
    });
    assert!(device.health().last_error.is_none_or(|error| is_fault(&error)));
    let _ = device.close();
}

/// Waits that end early, and the answer all the same.
pub fn deadlines(scene: &Scene) {
    let numbers = scene.numbers(0);
    let device = scene.open(1 + numbers.below(3) as u32);
    let shared = shared(&device);
    scene.threads(2 + numbers.below(3), |thread, numbers| {
        let stream = Stream::new(&device).unwrap();
        for index in 0..4 {
            let first = value(&stream, thread * 100 + index).unwrap();
            let mut points = Vec::new();
            let buffers: Vec<_> =
                (0..1 + numbers.below(4)).map(|_| room(&stream).unwrap()).collect();
            let mut from = &first;
            for to in &buffers {
                points.push(shared.step(&stream, to, from).unwrap());
                from = to;
            }
            let answer = download(&stream, from).unwrap();
            for point in points {
                perhaps_wait(numbers, point, false);
            }
            if numbers.one_in(2) {
                let waited = stream.synchronize_within(numbers.moment());
                assert!(waited.is_ok() || is_timeout(waited.as_ref().unwrap_err()), "{waited:?}");
            }
            perhaps_wait(numbers, answer.timepoint(), false);
            let expected = thread * 100 + index + buffers.len() as u64;
            assert_eq!(value_of(&answer.read::<f32>().unwrap()), Some(expected));
        }
    });
    device.close().unwrap();
}

/// More threads than streams.
pub fn shared_streams(scene: &Scene) {
    let numbers = scene.numbers(0);
    let device = scene.open(numbers.below(3) as u32);
    let shared = shared(&device);
    let bad = if numbers.one_in(2) { 8 } else { 0 };
    scene.threads(3 + numbers.below(4), |thread, numbers| {
        calls(&device, &shared, thread, numbers, 5, bad);
    });
    let _ = device.close();
}

/// Threads that come and go, and wait in line for a stream.
pub fn waiting_pool(scene: &Scene) {
    let numbers = scene.numbers(0);
    let streams = 2 + numbers.below(3) as u32;
    let builder = scene.builder().streams(streams).exhaustion(Exhaustion::Wait(None));
    let device = builder.open().expect("the device opens");
    let shared = shared(&device);
    scene.threads(2 + numbers.below(4), |thread, numbers| {
        for life in 0..3 {
            let own = scene.numbers(thread * 10 + life);
            std::thread::scope(|scope| {
                let name = format!("caller {thread} life {life}");
                let shared = &shared;
                let live = move || {
                    if own.one_in(3) {
                        let stream = Stream::new(&device).unwrap();
                        stream.scope(|| calls(&device, shared, thread, &own, 1, 4));
                    }
                    calls(&device, shared, thread, &own, 1 + own.below(2), 4);
                };
                let thread = std::thread::Builder::new().name(name);
                thread.spawn_scoped(scope, live).expect("a thread").join().expect("a caller");
            });
            if numbers.one_in(4) {
                std::thread::sleep(numbers.moment());
            }
        }
    });
    assert_eq!(device.free_streams(), streams - 1, "every stream came back");
    let _ = device.close();
}

/// Commands that several threads of the CPU device share, while others call too.
pub fn large_commands(scene: &Scene) {
    const ROWS: usize = 64;
    let numbers = scene.numbers(0);
    // No multiple of 4: such products of a GPU are left to the library, which is all that its driver on the host multiplies with.
    let size = (32 << numbers.below(4)) + 1;
    let device = scene.builder().intra_op(true).open().expect("the device opens");
    let layout = crate::scene::matrix(ROWS, size);
    let square = crate::scene::matrix(size, size);
    let setup = Stream::default_of(&device).unwrap();
    let ones = setup.allocate(square.dense_bytes()).unwrap();
    setup.upload(ones.operand(square), &vec![1f32; size * size]).unwrap();
    ones.settle().unwrap();
    scene.threads(1 + numbers.below(3), |thread, numbers| {
        let stream = device.stream().unwrap();
        for index in 0..3 {
            let v = (thread * 10 + index) as f32;
            let (x, y) =
                (stream.allocate(layout.dense_bytes()), stream.allocate(layout.dense_bytes()));
            let (x, y) = (x.unwrap(), y.unwrap());
            stream.upload(x.operand(layout), &vec![v; ROWS * size]).unwrap();
            let point = product(&stream, [&y, &x, &ones], layout, square).unwrap();
            perhaps_wait(numbers, point, false);
            let result = stream.download(y.operand(layout)).unwrap().read::<f32>().unwrap();
            assert!(result.iter().all(|&value| value == v * size as f32), "{thread} {index}");
        }
    });
    device.close().unwrap();
}

fn product(
    stream: &Stream,
    [to, x, w]: [&crate::runtime::Buffer; 3],
    layout: Layout,
    square: Layout,
) -> Result<crate::runtime::Timepoint, Error> {
    use crate::runtime::{Activation, Command};
    let (to, x, w) = (to.operand(layout), x.operand(layout), w.operand(square));
    stream.record(Command::matmul(to, x, w, None, None, 1.0, Activation::None)?)
}
