//! Buffers that several streams use.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

use crate::runtime::{Buffer, Download, Error, Stream};
use crate::scene::{
    Scene, Shared, download, is_fault, perhaps_wait, poll, read, room, value, value_of, write,
};

/// Values that go from thread to thread, each with a stream of its own. Nobody waits but the last.
pub fn chains(scene: &Scene) {
    let numbers = scene.numbers(0);
    let device = scene.open(2 + numbers.below(3) as u32);
    let shared = Shared::new(&Stream::default_of(&device).unwrap()).unwrap();
    let stages = 2 + numbers.below(4);
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..stages).map(|_| mpsc::channel::<(u64, bool, Buffer)>()).unzip();
    let receivers: Vec<_> =
        receivers.into_iter().map(|receiver| Mutex::new(Some(receiver))).collect();
    let senders: Vec<_> = senders.into_iter().map(|sender| Mutex::new(Some(sender))).collect();
    scene.threads(stages + 1, |thread, numbers| {
        let stream = Stream::new(&device).unwrap();
        let to =
            senders.get(thread as usize - 1).map(|sender| sender.lock().unwrap().take().unwrap());
        if thread == 1 {
            let to = to.unwrap();
            for v in 0..8 {
                let (mut buffer, bad) = (value(&stream, v * 16).unwrap(), numbers.one_in(5));
                if bad {
                    let next = room(&stream).unwrap();
                    shared.bad_copy(&stream, &next, &buffer).unwrap();
                    buffer = next;
                }
                to.send((v * 16, bad, buffer)).unwrap();
            }
            return;
        }
        let from = receivers[thread as usize - 2].lock().unwrap().take().unwrap();
        for (v, bad, buffer) in from {
            let next = room(&stream).unwrap();
            let copied = numbers.one_in(3);
            let point = if copied {
                shared.copy(&stream, &next, &buffer)
            } else {
                shared.step(&stream, &next, &buffer)
            };
            let v = v + u64::from(!copied);
            match (numbers.below(4), point.unwrap()) {
                (0, point) => poll(point, bad),
                (_, point) => perhaps_wait(numbers, point, bad),
            }
            drop(buffer);
            match &to {
                Some(to) => to.send((v, bad, next)).unwrap(),
                None => match read(&stream, &next) {
                    Ok(found) => assert!(!bad && found == v, "{found} instead of {v}, bad: {bad}"),
                    Err(error) => assert!(bad && is_fault(&error), "{v}: {error}"),
                },
            }
        }
    });
    let _ = device.close();
}

/// Values that go through several streams, and are asked for without waiting: workers get there.
pub fn polls(scene: &Scene) {
    let numbers = scene.numbers(0);
    let device = scene.open(2 + numbers.below(4) as u32);
    let shared = Shared::new(&Stream::default_of(&device).unwrap()).unwrap();
    let streams: Vec<_> = (0..4).map(|_| Stream::new(&device).unwrap()).collect();
    scene.threads(1 + numbers.below(3), |thread, numbers| {
        for index in 0..4 {
            let v = thread * 100 + index * 8;
            let mut current = value(numbers.pick(&streams), v).unwrap();
            let (steps, bad) = (1 + numbers.below(5), numbers.one_in(6));
            let mut points = Vec::new();
            for step in 0..steps {
                let stream = numbers.pick(&streams);
                let next = room(stream).unwrap();
                points.push(if bad && step == 0 {
                    shared.bad_copy(stream, &next, &current).unwrap()
                } else {
                    shared.step(stream, &next, &current).unwrap()
                });
                current = next;
            }
            let last = points.pop().unwrap();
            poll(last, bad);
            points.into_iter().for_each(|point| poll(point, bad));
            match read(numbers.pick(&streams), &current) {
                Ok(found) => assert!(!bad && found == v + steps, "{found} at {v}, bad: {bad}"),
                Err(error) => assert!(bad && is_fault(&error), "{v}: {error}"),
            }
        }
    });
    let _ = device.close();
}

/// Several threads write one buffer, others read it. What is read was written as a whole, and of each writer
/// nothing comes after something later.
pub fn writers(scene: &Scene) {
    const WRITES: u64 = 12;
    let numbers = scene.numbers(0);
    let device = scene.open(1 + numbers.below(4) as u32);
    let setup = Stream::default_of(&device).unwrap();
    let shared = Shared::new(&setup).unwrap();
    let buffer = value(&setup, 0).unwrap();
    let (writers, readers) = (1 + numbers.below(2), 1 + numbers.below(2));
    let left = AtomicU64::new(writers);
    scene.threads(writers + readers, |thread, numbers| {
        let stream = Stream::new(&device).unwrap();
        if thread <= writers {
            for index in 1..=WRITES {
                let v = thread * 100 + index;
                // Directly, or from another buffer that is dropped at once.
                let point = if numbers.one_in(2) {
                    write(&stream, &buffer, v).unwrap()
                } else {
                    let other = value(&stream, v - 1).unwrap();
                    shared.step(&stream, &buffer, &other).unwrap()
                };
                perhaps_wait(numbers, point, false);
                if numbers.one_in(4) {
                    stream.flush().unwrap();
                }
            }
            stream.synchronize().unwrap();
            left.fetch_sub(1, Ordering::SeqCst);
            return;
        }
        let mut latest = [0; 4];
        let mut check = |v: u64| {
            let (writer, index) = ((v / 100) as usize, v % 100);
            assert!(writer as u64 <= writers && index <= WRITES, "{v} was never written");
            assert!(writer == 0 || index >= latest[writer], "{v} after {latest:?}");
            assert!(writer != 0 || latest == [0; 4], "the first value after {latest:?}");
            latest[writer] = index;
        };
        loop {
            let over = left.load(Ordering::SeqCst) == 0;
            if numbers.one_in(2) {
                check(read(&stream, &buffer).unwrap());
            } else {
                let own = room(&stream).unwrap();
                shared.copy(&stream, &own, &buffer).unwrap();
                check(read(&stream, &own).unwrap());
            }
            if over {
                break;
            }
        }
        let last = read(&stream, &buffer).unwrap();
        assert_eq!(last % 100, WRITES, "{last} is left");
    });
    device.close().unwrap();
}

/// A buffer is settled while others write and read it. From then on nobody writes, and everybody reads the same.
pub fn settling(scene: &Scene) {
    let numbers = scene.numbers(0);
    let device = scene.open(1 + numbers.below(4) as u32);
    let setup = Stream::default_of(&device).unwrap();
    let shared = Shared::new(&setup).unwrap();
    for round in 0..2 {
        let buffer = value(&setup, 0).unwrap();
        let (settled, last) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
        let threads = 3 + numbers.below(2);
        scene.threads(threads, |thread, numbers| {
            let stream = Stream::new(&device).unwrap();
            if thread == 1 {
                if numbers.one_in(2) {
                    std::thread::sleep(numbers.moment());
                }
                buffer.settle().unwrap();
                assert!(buffer.is_settled());
                settled.store(true, Ordering::SeqCst);
            }
            for index in 1..=6 {
                let v = round * 1000 + thread * 100 + index;
                let was_settled = settled.load(Ordering::SeqCst);
                if thread == 2 {
                    let written = write(&stream, &buffer, v);
                    match written {
                        Ok(point) => {
                            assert!(!was_settled, "written after it was settled");
                            perhaps_wait(numbers, point, false);
                        }
                        Err(Error::Settled { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                let was_settled = settled.load(Ordering::SeqCst);
                let own = room(&stream).unwrap();
                let found = if numbers.one_in(2) {
                    read(&stream, &buffer).unwrap()
                } else {
                    shared.step(&stream, &own, &buffer).unwrap();
                    read(&stream, &own).unwrap() - 1
                };
                assert!(found == 0 || found / 100 % 10 == 2, "{found} was never written");
                if was_settled {
                    // The first to read settled contents says what they are.
                    let known =
                        last.compare_exchange(u64::MAX, found, Ordering::SeqCst, Ordering::SeqCst);
                    assert!(known.is_ok() || known == Err(found), "{found} and {known:?}");
                }
            }
        });
    }
    device.close().unwrap();
}

/// What a slot of [`values`] has.
#[derive(Clone)]
struct Held {
    buffer: Buffer,
    v: u64,
    bad: bool,
}

/// Values that never change, in slots that all threads use: made, computed from others, failed, waited for, read,
/// settled, replaced and dropped by anybody.
pub fn values(scene: &Scene) {
    let numbers = scene.numbers(0);
    let device = scene.open(numbers.below(4) as u32);
    let shared = Shared::new(&Stream::default_of(&device).unwrap()).unwrap();
    let slots: Vec<Mutex<Option<Held>>> = (0..6).map(|_| Mutex::new(None)).collect();
    let fails = numbers.one_in(2);
    scene.threads(2 + numbers.below(4), |thread, numbers| {
        let stream =
            if numbers.one_in(2) { device.stream() } else { Stream::new(&device) }.unwrap();
        let mut downloads: Vec<(Download, u64, bool)> = Vec::new();
        for index in 0..24 {
            let held = numbers.pick(&slots).lock().unwrap().clone();
            let put = |held: Held| *numbers.pick(&slots).lock().unwrap() = Some(held);
            let Some(Held { buffer, v, bad }) = held else {
                let v = thread * 1000 + index * 30;
                put(Held { buffer: value(&stream, v).unwrap(), v, bad: false });
                continue;
            };
            match numbers.below(12) {
                0..4 => {
                    let next = room(&stream).unwrap();
                    let point = shared.step(&stream, &next, &buffer).unwrap();
                    put(Held { buffer: next, v: v + 1, bad });
                    perhaps_wait(numbers, point, bad);
                }
                4 if fails => {
                    let next = room(&stream).unwrap();
                    shared.bad_copy(&stream, &next, &buffer).unwrap();
                    put(Held { buffer: next, v, bad: true });
                }
                4..7 => downloads.push((download(&stream, &buffer).unwrap(), v, bad)),
                7 => match buffer.settle() {
                    Ok(()) => assert!(!bad, "a failed value was settled"),
                    Err(error) => assert!(bad && is_fault(&error), "{error}"),
                },
                8 => drop(numbers.pick(&slots).lock().unwrap().take()),
                9 => {
                    downloads.pop();
                }
                10 => stream.flush().unwrap(),
                _ => match read(&stream, &buffer) {
                    Ok(found) => assert!(!bad && found == v, "{found} instead of {v}, bad: {bad}"),
                    Err(error) => assert!(bad && is_fault(&error), "{v}: {error}"),
                },
            }
        }
        for (download, v, bad) in downloads {
            match download.read::<f32>() {
                Ok(found) => assert!(!bad && value_of(&found) == Some(v), "{v}, bad: {bad}"),
                Err(error) => assert!(bad && is_fault(&error), "{v}: {error}"),
            }
        }
    });
    drop(slots);
    let _ = device.close();
}
