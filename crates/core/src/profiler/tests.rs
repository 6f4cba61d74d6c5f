use super::stream::RING;
use super::*;
use crate::OpKind;

fn span(sequence: u64) -> Span {
    let start_ns = sequence * 1000;
    Span { kind: OpKind::MatMul, layer: None, sequence, start_ns, end_ns: start_ns + 500 }
}

#[test]
fn nothing_is_kept_while_it_is_off() {
    let profiler = Profiler::new("test");
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
    let profiler = Profiler::new("test");
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
    let profiler = Profiler::new("a \"quoted\" name");
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
    let profiler = Profiler::new("test");
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
    let profiler = Profiler::new("test");
    let profile = profiler.stream(3);
    profiler.start();
    let work = |first: u64| {
        profile.add_recorded(first, first + 1, 100, 200);
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
