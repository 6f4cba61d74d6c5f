//! Chrome's trace format, which Perfetto reads. Written by hand: it is one flat list of records.

use std::collections::BTreeSet;
use std::fmt::{Display, Write};

use super::{Activity, BatchSpan, StreamTrace, ThreadLabel};

/// The two groups of rows, "processes" to the format.
const STREAMS: u32 = 1;
const THREADS: u32 = 2;

pub(super) fn trace(device: &str, streams: &[StreamTrace]) -> String {
    let mut trace = Trace(String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":["));
    trace.name("process_name", STREAMS, 0, &format!("millstream {device}: streams"));
    let batches = || streams.iter().flat_map(|trace| &trace.batches);
    let threads: BTreeSet<&ThreadLabel> = batches().map(|batch| &batch.thread).collect();
    if !threads.is_empty() {
        trace.name("process_name", THREADS, 0, &format!("millstream {device}: threads"));
    }
    for thread in threads {
        trace.name("thread_name", THREADS, thread.id(), thread);
    }
    for stream in streams {
        trace.stream(stream);
    }
    trace.0.push_str("]}\n");
    trace.0
}

struct Trace(String);

/// Nanoseconds as the format's microseconds.
struct Micros(u64);

impl Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

// Writing to a String cannot fail.
impl Trace {
    fn begin(&mut self, kind: &str, group: u32, row: u32, name: &str) {
        if self.0.ends_with('}') {
            self.0.push(',');
        }
        let _ =
            write!(self.0, "{{\"ph\":\"{kind}\",\"pid\":{group},\"tid\":{row},\"name\":\"{name}\"");
    }

    fn name(&mut self, what: &str, group: u32, row: u32, label: &impl Display) {
        self.begin("M", group, row, what);
        self.0.push_str(",\"args\":{\"name\":\"");
        self.text(&label.to_string());
        self.0.push_str("\"}}");
    }

    /// Text between quotes.
    fn text(&mut self, text: &str) {
        for character in text.chars() {
            if matches!(character, '"' | '\\') {
                self.0.push('\\');
            }
            self.0.push(if character.is_control() { ' ' } else { character });
        }
    }

    fn slice(&mut self, row: (u32, u32), name: &str, start_ns: u64, end_ns: u64) {
        self.begin("X", row.0, row.1, name);
        let (start, duration) = (Micros(start_ns), Micros(end_ns.saturating_sub(start_ns)));
        let _ = write!(self.0, ",\"ts\":{start},\"dur\":{duration},\"args\":{{");
    }

    fn stream(&mut self, trace: &StreamTrace) {
        let stream = trace.stream;
        match trace.dropped {
            0 => self.name("thread_name", STREAMS, stream, &format!("stream {stream}")),
            dropped => {
                let label = format!("stream {stream} ({dropped} older spans dropped)");
                self.name("thread_name", STREAMS, stream, &label);
            }
        }
        for span in &trace.spans {
            self.slice((STREAMS, stream), span.kind.name(), span.start_ns, span.end_ns);
            let _ = write!(self.0, "\"sequence\":{}", span.sequence);
            if let Some(layer) = span.layer {
                self.0.push_str(",\"layer\":\"");
                self.text(layer.as_str());
                self.0.push('"');
            }
            self.0.push_str("}}");
        }
        for batch in &trace.batches {
            self.batch(trace, batch);
        }
    }

    fn batch(&mut self, trace: &StreamTrace, batch: &BatchSpan) {
        let (stream, thread) = (trace.stream, batch.thread.id());
        let name = match batch.activity {
            Activity::Record => "record",
            Activity::Execute => "execute",
        };
        self.slice((THREADS, thread), name, batch.start_ns, batch.end_ns);
        let (first, last) = (batch.first, batch.last);
        let _ = write!(self.0, "\"stream\":{stream},\"first\":{first},\"last\":{last}}}}}");
        if batch.activity == Activity::Record {
            // Streams run in order, so their spans are sorted.
            let place = trace.spans.partition_point(|span| span.sequence < first);
            let run = trace.spans.get(place).filter(|span| span.sequence == first);
            if let Some(span) = run {
                self.arrow("s", (THREADS, thread), stream, first, batch.end_ns);
                self.arrow("f", (STREAMS, stream), stream, first, span.start_ns);
            }
        }
    }

    /// One end of an arrow; both have the same number.
    fn arrow(&mut self, end: &str, row: (u32, u32), stream: u32, first: u64, at_ns: u64) {
        self.begin(end, row.0, row.1, "submit");
        let at = Micros(at_ns);
        let _ = write!(
            self.0,
            ",\"cat\":\"submit\",\"id\":\"{stream}.{first}\",\"bp\":\"e\",\"ts\":{at}}}"
        );
    }
}
