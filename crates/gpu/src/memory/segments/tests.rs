use super::*;

struct Plain(usize, usize);

impl Memory for Plain {
    type Segment = usize;

    fn address(&self) -> usize {
        self.0
    }

    fn bytes(&self) -> usize {
        self.1
    }

    fn segment(&self) -> usize {
        self.0 / 100
    }
}

fn place(segment: usize, offset: usize) -> Option<Binding<usize>> {
    Some(Binding { segment, offset })
}

#[test]
fn an_address_is_found_in_its_segment_and_nowhere_else() {
    let segments = Arc::new(Segments::default());
    let mut view = SegmentView::default();
    assert_eq!(view.find(&segments, 0), None);
    let held = [(300, 100), (100, 50), (400, 10)]
        .map(|(address, bytes)| Registered::new(&segments, Plain(address, bytes)));
    for (address, expected) in [
        (99, None),
        (100, place(1, 0)),
        (149, place(1, 49)),
        // The end of one that has no neighbor, for operands without elements.
        (150, place(1, 50)),
        (151, None),
        (399, place(3, 99)),
        // The end of one is the beginning of the next.
        (400, place(4, 0)),
        (411, None),
    ] {
        assert_eq!(view.find(&segments, address), expected, "{address}");
    }
    drop(held);
    assert_eq!(view.find(&segments, 100), None);
}

#[test]
fn a_view_sees_what_was_allocated_and_freed_since() {
    let segments = Arc::new(Segments::default());
    let mut view = SegmentView::default();
    let first = Registered::new(&segments, Plain(100, 100));
    assert_eq!(view.find(&segments, 150), place(1, 50));
    drop(first);
    assert_eq!(view.find(&segments, 150), None);
    // Another one at addresses of the first.
    let _second = Registered::new(&segments, Plain(0, 200));
    assert_eq!(view.find(&segments, 150), place(0, 150));
}

#[test]
fn threads_find_what_they_were_handed() {
    let segments = Arc::new(Segments::default());
    let (send, receive) = std::sync::mpsc::channel();
    let finder = {
        let segments = Arc::clone(&segments);
        std::thread::spawn(move || {
            let mut view = SegmentView::default();
            for memory in receive {
                let memory: Registered<Plain> = memory;
                assert_eq!(
                    view.find(&segments, memory.memory().0 + 1),
                    place(memory.memory().0 / 100, 1)
                );
            }
        })
    };
    for number in 1..200 {
        send.send(Registered::new(&segments, Plain(number * 100, 100))).unwrap();
    }
    drop(send);
    finder.join().unwrap();
}
