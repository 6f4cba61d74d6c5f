//! Chrome's trace format, which Perfetto reads. Written by hand: it is one flat list of records.

use std::collections::BTreeSet;
use std::fmt::{Display, Write};

use super::{Activity, Annotation, BatchSpan, JoinedSpan, StreamTrace, ThreadLabel, Trace, joined};

/// A trace of several devices.
pub(super) fn trace(devices: &[&Trace]) -> String {
    let mut text = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    for (index, device) in (0..).zip(devices) {
        let (streams, threads) = (2 * index + 1, 2 * index + 2);
        let joined = 2 * devices.len() as u32 + 1 + index;
        let mut writer = Writer { text, streams, threads, joined };
        writer.device(device);
        text = writer.text;
    }
    text.push_str("]}\n");
    text
}

/// Writes the records of a device. Its streams, its threads and its batches of calls are groups of rows; the format calls a group
/// a process.
struct Writer {
    text: String,
    streams: u32,
    threads: u32,
    joined: u32,
}

/// Nanoseconds as the format's microseconds.
struct Micros(u64);

impl Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

// Writing to a String cannot fail.
impl Writer {
    fn device(&mut self, trace: &Trace) {
        let Trace { device, streams, annotations, joined } = trace;
        self.name("process_name", (self.streams, 0), &format!("millstream {device}: streams"));
        let batches = streams.iter().flat_map(|trace| &trace.batches).map(|batch| &batch.thread);
        let annotated = annotations.iter().map(|annotation| &annotation.thread);
        let threads: BTreeSet<&ThreadLabel> = batches.chain(annotated).collect();
        if !threads.is_empty() {
            self.name("process_name", (self.threads, 0), &format!("millstream {device}: threads"));
        }
        for thread in threads {
            self.name("thread_name", (self.threads, thread.id()), thread);
        }
        for stream in streams {
            self.stream(stream);
        }
        for annotation in annotations {
            self.annotation(annotation);
        }
        if !joined.is_empty() {
            self.joined(device, joined);
        }
    }

    fn joined(&mut self, device: &str, spans: &[JoinedSpan]) {
        self.name("process_name", (self.joined, 0), &format!("millstream {device}: joined calls"));
        let rows = joined::rows(spans);
        for row in 0..=rows.iter().copied().max().unwrap_or(0) {
            self.name("thread_name", (self.joined, row), &format!("batch {}", row + 1));
        }
        for (span, row) in spans.iter().zip(rows) {
            self.slice((self.joined, row), &span.name(), span.start_ns, span.end_ns);
            let (calls, mean) = (span.calls, Micros(span.mean_queued_ns()));
            let longest = Micros(span.longest_queued_ns);
            let _ = write!(
                self.text,
                "\"calls\":{calls},\"mean queue µs\":{mean},\"longest queue µs\":{longest}}}}}"
            );
        }
    }

    fn begin(&mut self, kind: &str, (group, row): (u32, u32), name: &str) {
        if self.text.ends_with('}') {
            self.text.push(',');
        }
        let _ = write!(self.text, "{{\"ph\":\"{kind}\",\"pid\":{group},\"tid\":{row},\"name\":");
        self.quoted(name);
    }

    /// A text as a JSON string.
    fn quoted(&mut self, text: &str) {
        self.text.push('"');
        for character in text.chars() {
            if matches!(character, '"' | '\\') {
                self.text.push('\\');
            }
            self.text.push(if character.is_control() { ' ' } else { character });
        }
        self.text.push('"');
    }

    fn name(&mut self, what: &str, row: (u32, u32), label: &impl Display) {
        self.begin("M", row, what);
        self.text.push_str(",\"args\":{\"name\":");
        self.quoted(&label.to_string());
        self.text.push_str("}}");
    }

    fn slice(&mut self, row: (u32, u32), name: &str, start_ns: u64, end_ns: u64) {
        self.begin("X", row, name);
        let (start, duration) = (Micros(start_ns), Micros(end_ns.saturating_sub(start_ns)));
        let _ = write!(self.text, ",\"ts\":{start},\"dur\":{duration},\"args\":{{");
    }

    fn stream(&mut self, trace: &StreamTrace) {
        let stream = trace.stream;
        match trace.dropped {
            0 => self.name("thread_name", (self.streams, stream), &format!("stream {stream}")),
            dropped => {
                let label = format!("stream {stream} ({dropped} older spans dropped)");
                self.name("thread_name", (self.streams, stream), &label);
            }
        }
        for span in &trace.spans {
            self.slice((self.streams, stream), span.kind.name(), span.start_ns, span.end_ns);
            let _ = write!(self.text, "\"sequence\":{}", span.sequence);
            if let Some(layer) = span.layer {
                self.text.push_str(",\"layer\":");
                self.quoted(layer.as_str());
            }
            if let Some(shapes) = trace.shapes_of(span.sequence) {
                self.text.push_str(",\"shapes\":");
                self.quoted(&shapes.to_string());
            }
            self.text.push_str("}}");
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
        self.slice((self.threads, thread), name, batch.start_ns, batch.end_ns);
        let (first, last) = (batch.first, batch.last);
        let _ = write!(self.text, "\"stream\":{stream},\"first\":{first},\"last\":{last}}}}}");
        if batch.activity == Activity::Record {
            // Streams run in order, so their spans are sorted.
            let place = trace.spans.partition_point(|span| span.sequence < first);
            let run = trace.spans.get(place).filter(|span| span.sequence == first);
            if let Some(span) = run {
                self.arrow("s", (self.threads, thread), stream, first, batch.end_ns);
                self.arrow("f", (self.streams, stream), stream, first, span.start_ns);
            }
        }
    }

    /// A span or a mark of a user, on the row of its thread.
    fn annotation(&mut self, annotation: &Annotation) {
        let row = (self.threads, annotation.thread.id());
        match annotation.end_ns {
            Some(end_ns) => {
                self.slice(row, &annotation.name, annotation.start_ns, end_ns);
                self.text.push_str("}}");
            }
            None => {
                self.begin("i", row, &annotation.name);
                let at = Micros(annotation.start_ns);
                let _ = write!(self.text, ",\"s\":\"t\",\"ts\":{at}}}");
            }
        }
    }

    /// One end of an arrow; both have the same number.
    fn arrow(&mut self, end: &str, row: (u32, u32), stream: u32, first: u64, at_ns: u64) {
        self.begin(end, row, "submit");
        let at = Micros(at_ns);
        let _ = write!(
            self.text,
            ",\"cat\":\"submit\",\"id\":\"{stream}.{first}\",\"bp\":\"e\",\"ts\":{at}}}"
        );
    }
}
