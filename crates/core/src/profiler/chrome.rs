//! Chrome's trace format, which Perfetto reads. Written by hand: it is one flat list of records.

use std::fmt::Write;

use super::Span;

pub(super) fn trace(device: &str, streams: &[(u32, Vec<Span>, u64)]) -> String {
    let mut json = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    name(&mut json, "process_name", 0, &format!("millstream {device}"));
    for (stream, spans, dropped) in streams {
        let label = match dropped {
            0 => format!("stream {stream}"),
            dropped => format!("stream {stream} ({dropped} older spans dropped)"),
        };
        json.push(',');
        name(&mut json, "thread_name", *stream, &label);
        for span in spans {
            let duration = span.end_ns.saturating_sub(span.start_ns);
            // Writing to a String cannot fail.
            let _ = write!(
                json,
                ",{{\"ph\":\"X\",\"pid\":1,\"tid\":{stream},\"name\":\"{}\",\"ts\":{}.{:03},\
                 \"dur\":{}.{:03},\"args\":{{\"sequence\":{}}}}}",
                span.kind.name(),
                span.start_ns / 1000,
                span.start_ns % 1000,
                duration / 1000,
                duration % 1000,
                span.sequence,
            );
        }
    }
    json.push_str("]}\n");
    json
}

fn name(json: &mut String, kind: &str, thread: u32, label: &str) {
    let escaped: String = label
        .chars()
        .flat_map(|character| {
            let escape = matches!(character, '"' | '\\').then_some('\\');
            escape.into_iter().chain([if character.is_control() { ' ' } else { character }])
        })
        .collect();
    let _ = write!(
        json,
        "{{\"ph\":\"M\",\"pid\":1,\"tid\":{thread},\"name\":\"{kind}\",\"args\":{{\"name\":\"{escaped}\"}}}}"
    );
}
