//! Threads that run one plan.

use std::sync::Mutex;

use crate::runtime::{Buffer, Stream};
use crate::scene::{Scene, Shared, is_fault, perhaps_wait, read, room, value};

/// One plan for all threads, on streams of their own and on shared ones, with inputs that other threads have made and
/// may still be computing. Some runs have a Command that fails: of their two results one is spoiled.
pub fn plans(scene: &Scene) {
    let numbers = scene.numbers(0);
    let device = scene.open(numbers.below(4) as u32);
    let setup = Stream::default_of(&device).unwrap();
    let shared = Shared::new(&setup).unwrap();
    let plan = shared.plan(&device).unwrap();
    // What threads hand to each other.
    let slots: Vec<Mutex<Option<(Buffer, u64)>>> = (0..3).map(|_| Mutex::new(None)).collect();
    let fails = numbers.one_in(2);
    scene.threads(2 + numbers.below(4), |thread, numbers| {
        let own = numbers.one_in(2);
        let stream = if own { Stream::new(&device) } else { device.stream() }.unwrap();
        // Of the same plan, so that one clone may be the last.
        let plan = plan.clone();
        for index in 0..6 {
            let bad = fails && numbers.one_in(3);
            let handed = numbers.pick(&slots).lock().unwrap().take();
            let (input, v) = handed.unwrap_or_else(|| {
                let v = thread * 1000 + index * 30;
                (value(&stream, v).unwrap(), v)
            });
            let rows = Shared::rows(&stream, bad).unwrap();
            if numbers.one_in(3) {
                stream.flush().unwrap();
            }
            let (further, copied) = (room(&stream).unwrap(), room(&stream).unwrap());
            let point = stream.run(&plan, &[&input, &rows], &[&further, &copied]).unwrap();
            drop((input, rows));
            // Another run, before anybody has waited for the first.
            let again = numbers.one_in(3).then(|| {
                let (to, rows) = (room(&stream).unwrap(), Shared::rows(&stream, false).unwrap());
                let other = room(&stream).unwrap();
                stream.run(&plan, &[&further, &rows], &[&other, &to]).unwrap();
                to
            });
            // The last Command makes the result that may be spoiled.
            perhaps_wait(numbers, point, bad);
            match read(&stream, &copied) {
                Ok(found) => assert!(!bad && found == v + 1, "{found} at {v}, bad: {bad}"),
                Err(error) => assert!(bad && is_fault(&error), "{v}: {error}"),
            }
            if let Some(again) = again {
                assert_eq!(read(&stream, &again).unwrap(), v + 3);
            }
            if numbers.one_in(2) {
                assert_eq!(read(&stream, &further).unwrap(), v + 2);
            } else {
                *numbers.pick(&slots).lock().unwrap() = Some((further, v + 2));
            }
        }
    });
    drop(slots);
    let _ = device.close();
}
