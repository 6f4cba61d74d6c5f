use super::*;
use crate::{Command, Config, DType, LayerName, Layout, OpKind, Stream, fake};

const RING: usize = 32;

fn profiler(device: &str) -> Profiler {
    Profiler::new(device, RING)
}

fn span(sequence: u64) -> Span {
    let start_ns = sequence * 1000;
    Span { kind: OpKind::MatMul, layer: None, sequence, start_ns, end_ns: start_ns + 500 }
}

#[test]
fn nothing_is_kept_while_it_is_off() {
    let profiler = self::profiler("test");
    let profile = profiler.stream(0);
    profile.add([span(1)]);
    profiler.start();
    profile.add([span(2)]);
    profiler.stop();
    profile.add([span(3)]);
    profile.add_executed(&[span(4)]);
    let trace = profiler.take().remove(0);
    assert_eq!((trace.spans, trace.batches), (vec![span(2)], vec![]));
}

#[test]
fn the_rings_are_bounded_and_keep_the_newest() {
    let profiler = self::profiler("test");
    let profile = profiler.stream(0);
    profiler.start();
    for sequence in 0..RING as u64 + 10 {
        profile.add_executed(&[span(sequence)]);
    }
    let trace = profiler.take().remove(0);
    assert_eq!((trace.spans.len(), trace.batches.len(), trace.dropped), (RING, RING, 10));
    assert_eq!((trace.spans[0], trace.batches[0].first), (span(10), 10));
}

#[test]
fn the_trace_has_one_row_per_stream() {
    let profiler = self::profiler("a \"quoted\" name");
    let profiles = [profiler.stream(0), profiler.stream(7)];
    profiler.start();
    for profile in &profiles {
        profile.add([span(1)]);
    }
    let json = profiler.to_json();
    assert!(json.contains(r#""name":"stream 0""#) && json.contains(r#""name":"stream 7""#));
    assert!(json.contains(r#""ts":1.000,"dur":0.500"#), "{json}");
    assert!(json.contains(r#"a \"quoted\" name"#));
    assert_eq!(json.matches('{').count(), json.matches('}').count());
}

#[test]
fn the_trace_names_the_layer_of_a_command() {
    let profiler = self::profiler("test");
    let profile = profiler.stream(0);
    profiler.start();
    let layer = Some(crate::LayerName::new("encoder.layers.0.\"linear1\""));
    profile.add([Span { layer, ..span(1) }, span(2)]);
    let json = profiler.to_json();
    assert!(json.contains(r#""sequence":1,"layer":"encoder.layers.0.\"linear1\""}"#), "{json}");
    assert!(json.contains(r#""sequence":2}"#), "{json}");
}

#[test]
fn the_trace_has_a_row_per_thread_and_arrows_from_recording_to_the_stream() {
    let profiler = self::profiler("test");
    let profile = profiler.stream(3);
    profiler.start();
    let clock = Layout::contiguous(DType::I64, &[]).unwrap();
    let place = crate::Operand::new(crate::RawBuffer { address: 4096, bytes: 8 }, clock);
    let commands = [0; 2].map(|_| Command::timestamp(place).unwrap());
    let work = |first: u64| {
        profile.add_recorded(first, &commands, 100, 200);
        profile.add_executed(&[span(first), span(first + 1)]);
    };
    std::thread::scope(|scope| {
        let named = std::thread::Builder::new().name("caller".into());
        named.spawn_scoped(scope, || work(1)).unwrap().join().unwrap();
        scope.spawn(|| work(3));
    });
    let json = profiler.to_json();
    assert_eq!(json.matches(r#""name":"record""#).count(), 2, "{json}");
    assert_eq!(json.matches(r#""name":"execute""#).count(), 2);
    assert_eq!(json.matches(r#""ph":"s""#).count(), 2);
    assert_eq!(json.matches(r#""ph":"f""#).count(), 2);
    assert!(json.contains(r#""args":{"name":"caller"}"#));
    assert_eq!(json.matches("thread_name").count(), 3, "a stream and two threads");
}

#[test]
fn threads_have_numbers_of_their_own() {
    let own = ThreadLabel::current();
    assert_eq!(own, ThreadLabel::current());
    let other = std::thread::spawn(ThreadLabel::current).join().unwrap();
    assert_ne!(own.id(), other.id());
    assert_eq!(other.to_string(), format!("thread {}", other.id()));
}

#[test]
fn spans_and_marks_of_users_are_on_the_row_of_their_thread() {
    let profiler = self::profiler("test");
    drop(profiler.span("before"));
    profiler.start();
    {
        let _outer = profiler.span("a \"call\"");
        profiler.mark("half way");
    }
    let late = profiler.span("after");
    let trace = profiler.take_trace();
    profiler.stop();
    drop(late);
    profiler.mark("after");
    let names: Vec<_> = trace.annotations.iter().map(|one| (&*one.name, one.end_ns)).collect();
    assert_eq!((names.len(), names[0]), (2, ("half way", None)));
    assert!(names[1].0 == "a \"call\"" && names[1].1 >= Some(trace.annotations[0].start_ns));
    assert!(profiler.take_trace().annotations.is_empty());
    let json = trace.to_json();
    assert!(json.contains(r#""ph":"i""#) && json.contains(r#""name":"half way""#), "{json}");
    assert!(json.contains(r#""name":"a \"call\"""#), "{json}");
    assert_eq!(json.matches("thread_name").count(), 1);
}

/// Two batches at a time are on two rows, and a third one takes the row that is free again.
#[test]
fn batches_of_calls_have_rows_with_their_sizes_and_queue_times() {
    let profiler = self::profiler("test");
    let origin = Instant::now();
    let at = |microseconds| origin + std::time::Duration::from_micros(microseconds);
    profiler.add_joined([at(0)].into_iter(), at(1), at(2));
    profiler.start();
    profiler.add_joined([at(0), at(4), at(8)].into_iter(), at(10), at(20));
    profiler.add_joined([at(12)].into_iter(), at(12), at(25));
    profiler.add_joined([at(5), at(6)].into_iter(), at(20), at(30));
    let trace = profiler.take_trace();
    profiler.stop();
    profiler.add_joined([at(0)].into_iter(), at(1), at(2));
    let found: Vec<_> =
        trace.joined.iter().map(|one| (one.calls, one.queued_ns, one.longest_queued_ns)).collect();
    assert_eq!(found, [(3, 18_000, 10_000), (1, 0, 0), (2, 29_000, 15_000)]);
    assert!(trace.joined.iter().all(|one| one.end_ns > one.start_ns));
    assert!(profiler.take_trace().joined.is_empty());

    // Fixed times: a batch that is noted as it ends is a little off.
    let spans = [(10, 20), (12, 25), (20, 30)].map(|(start_ns, end_ns)| JoinedSpan {
        calls: 2,
        queued_ns: 3_000,
        longest_queued_ns: 2_000,
        start_ns,
        end_ns,
    });
    let trace = Trace { joined: spans.to_vec(), ..Trace::default() };
    let json = trace.to_json();
    assert_eq!(joined::rows(&spans), [0, 1, 0]);
    assert_eq!(json.matches(r#""name":"batch of 2 calls""#).count(), 3, "{json}");
    let details = r#""calls":2,"mean queue µs":1.500,"longest queue µs":2.000}"#;
    assert_eq!(json.matches(details).count(), 3, "{json}");
    assert_eq!(json.matches("thread_name").count(), 2);
    assert_eq!(json.matches('{').count(), json.matches('}').count());
    let summary = trace.summary();
    assert_eq!((summary.joined[0].count, summary.joined[0].total_ns), (3, 33));
    assert!(summary.to_string().contains("batch of 2 calls"), "{summary}");
}

#[test]
fn batches_of_calls_are_bounded() {
    let profiler = self::profiler("test");
    profiler.start();
    let now = Instant::now();
    (0..RING + 5).for_each(|calls| profiler.add_joined(std::iter::repeat_n(now, calls), now, now));
    let trace = profiler.take_trace();
    assert_eq!((trace.joined.len(), trace.joined[0].calls), (RING, 5));
}

#[test]
fn annotations_are_bounded_too() {
    let profiler = self::profiler("test");
    profiler.start();
    (0..RING + 5).for_each(|number| profiler.mark(&number.to_string()));
    let trace = profiler.take_trace();
    assert_eq!((trace.annotations.len(), &*trace.annotations[0].name), (RING, "5"));
}

#[test]
fn shapes_are_known_of_recorded_commands() {
    let config = Config { profiler_ring: 16, ..Config::default() };
    let (device, _) = fake::device(config, 1 << 20, 1).unwrap();
    let stream = Stream::new(&device).unwrap();
    let buffer = stream.allocate(64).unwrap();
    let operand = buffer.operand(Layout::contiguous(DType::F32, &[4, 4]).unwrap());
    device.profiler().start();
    let point = stream.record(Command::fill(operand, 1.0f32).unwrap()).unwrap();
    stream.synchronize().unwrap();
    let trace = device.profiler().take_trace();
    let stream = trace.streams.iter().find(|stream| !stream.shapes.is_empty()).unwrap();
    assert_eq!(stream.shapes_of(point.sequence()).unwrap().to_string(), "f32[4, 4]");
    assert_eq!(stream.shapes_of(point.sequence() + 1), None);
}

#[test]
fn shapes_are_bounded_too() {
    let profiler = self::profiler("test");
    let profile = profiler.stream(0);
    profiler.start();
    let clock = Layout::contiguous(DType::I64, &[]).unwrap();
    let place = crate::Operand::new(crate::RawBuffer { address: 4096, bytes: 8 }, clock);
    for sequence in 0..RING as u64 + 3 {
        profile.add_recorded(sequence, &[Command::timestamp(place).unwrap()], 100, 200);
    }
    let trace = profiler.take().remove(0);
    assert_eq!((trace.shapes.len(), trace.shapes[0].0), (RING, 3));
}

#[test]
fn shapes_are_shown_as_outputs_and_inputs() {
    let operand = |address, shape: &[usize]| {
        let layout = Layout::contiguous(DType::F32, shape).unwrap();
        crate::Operand::new(crate::RawBuffer { address, bytes: layout.dense_bytes() }, layout)
    };
    let product = Command::matmul(
        operand(4096, &[2, 8]),
        operand(8192, &[2, 4]),
        operand(16384, &[4, 8]),
        None,
        None,
        1.0,
        crate::Activation::None,
    );
    let shapes = Shapes::of(&product.unwrap());
    assert_eq!(shapes.to_string(), "f32[2, 8] ← f32[2, 4], f32[4, 8]");
}

#[test]
fn a_summary_adds_up_operations_layers_and_spans() {
    let profiler = self::profiler("test");
    let profile = profiler.stream(0);
    profiler.start();
    let layer = Some(LayerName::new("summed.layer"));
    profile.add([span(1), Span { layer, ..span(2) }, Span { kind: OpKind::Softmax, ..span(3) }]);
    drop(profiler.span("call"));
    let summary = profiler.summary();
    let rows = |rows: &[SummaryRow]| -> Vec<(String, u64, u64)> {
        rows.iter().map(|row| (row.name.clone(), row.count, row.total_ns)).collect()
    };
    let expected = [("matmul".to_owned(), 2, 1000), ("softmax".to_owned(), 1, 500)];
    assert_eq!(rows(&summary.operations), expected);
    let expected = [("(no layer)".to_owned(), 2, 1000), ("summed.layer".to_owned(), 1, 500)];
    assert_eq!(rows(&summary.layers), expected);
    assert_eq!((summary.spans.len(), summary.spans[0].share), (1, None));
    assert!((summary.operations[1].share.unwrap() - 1.0 / 3.0).abs() < 1e-9);
    assert!((summary.operations[0].mean_ns() - 500.0).abs() < 1e-9);
    let text = summary.to_string();
    for part in ["operation", "matmul", "66.7%", "summed.layer", "span", "call"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn a_file_is_written_when_its_device_is_closed() {
    let name = format!("millstream-closed-{}.json", std::process::id());
    let path = std::env::temp_dir().join(name);
    let config = Config { trace: Some(path.clone()), ..Config::default() };
    for device in 1..=2 {
        let (opened, _) = fake::device(config.clone(), 1 << 20, 1).unwrap();
        opened.profiler().mark(&format!("device {device}"));
        opened.close().unwrap();
        let json = std::fs::read_to_string(&path).unwrap();
        assert_eq!(json.matches(r#""ph":"i""#).count(), device, "{json}");
    }
    std::fs::remove_file(&path).unwrap();
    let config = Config { trace: Some("/missing/folder/trace.json".into()), ..config };
    let refused = fake::device(config, 1 << 20, 1).err().unwrap().to_string();
    assert!(refused.contains("/missing/folder/trace.json"), "{refused}");
}
