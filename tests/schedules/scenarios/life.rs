//! Memory and devices that come to their end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};

use crate::runtime::{Buffer, DType, Download, Error, Layout, Result, Stream};
use crate::scene::{Scene, Shared, is_closed, perhaps_wait, read, room, value};

fn row(count: usize) -> Layout {
    Layout::contiguous(DType::F32, &[count]).unwrap()
}

/// What one thread makes and another drops, or reads.
struct Parcel {
    buffer: Option<Buffer>,
    download: Download,
    v: f32,
}

/// Threads that drop, early or late, what others have made. The memory is used again at once.
pub fn drops(scene: &Scene) {
    let numbers = scene.numbers(0);
    let device = scene.open(1 + numbers.below(4) as u32);
    // Small ones, and such as a GPU's queue has pinned memory for.
    let count = *numbers.pick(&[40, 40, 6000]);
    let (sender, receiver) = mpsc::channel::<Parcel>();
    let (sender, receiver) = (Mutex::new(Some(sender)), Mutex::new(receiver));
    let producers = 1 + numbers.below(3);
    let senders: Vec<_> = {
        let sender = sender.lock().unwrap().take().unwrap();
        (0..producers).map(|_| Mutex::new(Some(sender.clone()))).collect()
    };
    scene.threads(producers + 2, |thread, numbers| {
        let stream = Stream::new(&device).unwrap();
        let layout = row(count);
        if thread > producers {
            loop {
                let Ok(parcel) = receiver.lock().unwrap().recv() else { return };
                let Parcel { buffer, download, v } = parcel;
                // Used on this thread's stream first, so that going home takes a while.
                let again = buffer.as_ref().filter(|_| numbers.one_in(2));
                let again = again.map(|buffer| stream.download(buffer.operand(layout)).unwrap());
                // What was read before is not what is written now.
                if let Some(buffer) = buffer.as_ref().filter(|_| numbers.one_in(3)) {
                    stream.upload(buffer.operand(layout), &vec![-1f32; count]).unwrap();
                }
                if numbers.one_in(2) {
                    drop(buffer);
                }
                if let Some(again) = again.filter(|_| numbers.one_in(2)) {
                    check(again, v);
                }
                if !numbers.one_in(3) {
                    check(download, v);
                }
            }
        }
        let sender = senders[thread as usize - 1].lock().unwrap().take().unwrap();
        for index in 0..16 {
            let v = (thread * 100 + index) as f32;
            let buffer = stream.allocate(layout.dense_bytes()).unwrap();
            let point = stream.upload(buffer.operand(layout), &vec![v; count]).unwrap();
            let download = stream.download(buffer.operand(layout)).unwrap();
            let buffer = Some(buffer).filter(|_| numbers.one_in(2));
            sender.send(Parcel { buffer, download, v }).unwrap();
            perhaps_wait(numbers, point, false);
        }
    });
    device.synchronize().unwrap();
    device.empty_cache().unwrap();
    assert_eq!(device.memory().in_use, 0, "everything was dropped");
    device.close().unwrap();
}

fn check(download: Download, v: f32) {
    let values = download.read::<f32>().unwrap();
    assert!(values.iter().all(|&value| value == v), "{} instead of {v}", values[0]);
}

/// The device is closed while threads call. Each call has the right answer or an error that says it is closed.
pub fn closing(scene: &Scene) {
    let numbers = scene.numbers(0);
    let device = scene.open(1 + numbers.below(4) as u32);
    let shared = Shared::new(&Stream::default_of(&device).unwrap()).unwrap();
    let callers = 2 + numbers.below(3);
    let (done, after) = (AtomicU64::new(0), numbers.below(12));
    let call = |v: u64, kept: &mut Vec<Buffer>| -> Result<u64> {
        let stream = device.stream()?;
        let (x, y) = (value(&stream, v)?, room(&stream)?);
        shared.step(&stream, &y, &x)?;
        kept.push(x);
        let found = read(&stream, &y)?;
        kept.push(y);
        Ok(found)
    };
    scene.threads(callers + 1, |thread, numbers| {
        if thread == 1 {
            while done.load(Ordering::SeqCst) < after {
                std::thread::yield_now();
            }
            // Of two that close it at once, one may find it closed.
            std::thread::scope(|scope| {
                if numbers.one_in(3) {
                    let second = std::thread::Builder::new().name("second".into());
                    let close = || device.close().map_err(|error| assert!(is_closed(&error)));
                    second.spawn_scoped(scope, close).expect("a thread");
                }
                let closed = device.close();
                assert!(closed.is_ok() || is_closed(closed.as_ref().unwrap_err()), "{closed:?}");
            });
            assert!(is_closed(&device.stream().unwrap_err()));
            return;
        }
        let mut kept = Vec::new();
        for index in 0.. {
            match call(thread * 1000 + index, &mut kept) {
                Ok(found) => assert_eq!(found, thread * 1000 + index + 1),
                Err(error) if is_closed(&error) => break,
                Err(error) => panic!("call {index}: {error}"),
            }
            done.fetch_add(1, Ordering::SeqCst);
            if numbers.one_in(3) {
                kept.clear();
            }
        }
    });
    drop(shared);
    assert_eq!(device.memory().in_use, 0, "everything was dropped");
}

/// Threads that look after the device as a whole while others call.
pub fn housekeeping(scene: &Scene) {
    let numbers = scene.numbers(0);
    let device = scene.open(1 + numbers.below(4) as u32);
    let shared = Shared::new(&Stream::default_of(&device).unwrap()).unwrap();
    let callers = 2 + numbers.below(2);
    scene.threads(callers + 1, |thread, numbers| {
        if thread == 1 {
            for _ in 0..12 {
                match numbers.below(6) {
                    0 => device.synchronize().unwrap(),
                    1 => device.empty_cache().unwrap(),
                    2 => device.profiler().start(),
                    3 => drop(device.profiler().take()),
                    4 => assert_eq!(device.health().faults, 0),
                    _ => assert!(device.memory().in_use <= device.memory().limit),
                }
            }
            return;
        }
        for index in 0..6 {
            let stream = device.stream().unwrap();
            let (x, y) = (value(&stream, thread * 100 + index).unwrap(), room(&stream).unwrap());
            shared.step(&stream, &y, &x).unwrap();
            drop(x);
            assert_eq!(read(&stream, &y).unwrap(), thread * 100 + index + 1);
        }
    });
    drop(shared);
    device.close().unwrap();
    let memory = device.memory();
    assert_eq!((memory.in_use, memory.reserved), (0, 0), "everything went back: {memory:?}");
}

/// Little memory: every call has the right answer or an error that says so, and the device is well afterwards.
pub fn low_memory(scene: &Scene) {
    const LIMIT: usize = 1 << 20;
    let numbers = scene.numbers(0);
    let builder = scene.builder().streams(2 + numbers.below(3) as u32).memory_limit(LIMIT);
    let device = builder.open().expect("the device opens");
    scene.threads(2 + numbers.below(3), |thread, numbers| {
        let mut held: Vec<(Buffer, Layout, f32)> = Vec::new();
        for index in 0..8 {
            let v = (thread * 100 + index) as f32;
            let layout = row(1 << (8 + numbers.below(9)));
            let made = device.stream().and_then(|stream| {
                let buffer = stream.allocate(layout.dense_bytes())?;
                let values = vec![v; layout.dense_bytes() / 4];
                let point = stream.upload(buffer.operand(layout), &values)?;
                perhaps_wait(numbers, point, false);
                Ok(buffer)
            });
            match made {
                Ok(buffer) => held.push((buffer, layout, v)),
                Err(Error::OutOfMemory { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            if !held.is_empty() && numbers.one_in(2) {
                let (buffer, layout, v) =
                    held.swap_remove(numbers.below(held.len() as u64) as usize);
                let stream = device.stream().unwrap();
                check(stream.download(buffer.operand(layout)).unwrap(), v);
            }
        }
    });
    // All of it is free: a block of half the limit must be there.
    let stream = Stream::default_of(&device).unwrap();
    let large = stream.allocate(LIMIT / 2).unwrap();
    drop(large);
    device.close().unwrap();
}
