use super::*;

#[test]
fn sizes_are_shown_in_mebibytes() {
    let busy = StreamMemory { stream: 3, in_use: 1 << 20, peak: 3 << 20, ..Default::default() };
    let stats = MemoryStats {
        in_use: 1 << 20,
        cached: 512 << 10,
        reserved: 64 << 20,
        limit: 1 << 30,
        segments: 2,
        streams: vec![StreamMemory::default(), busy],
        ..Default::default()
    };
    let text = stats.to_string();
    assert!(
        text.starts_with("1.0 MiB in use, 0.5 MiB cached, 0.0 MiB deferred; 64.0 MiB"),
        "{text}"
    );
    assert!(text.contains("limit 1024.0 MiB"), "{text}");
    assert_eq!(text.lines().count(), 2, "an idle stream has no line: {text}");
    assert!(text.contains("\nstream 3: 1.0 MiB in use (peak 3.0 MiB)"), "{text}");
}
