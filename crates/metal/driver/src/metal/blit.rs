//! Copies and fills.

use std::sync::Arc;

use super::Range;
use super::buffer::Buffer;
use super::counters::SampleBuffer;
use super::encoder::Encoder;
use super::pass::{Place, Step};
use crate::objc::{Method, Sel, This, method};
use crate::rules::{Rule, violation};

pub const COPY: Method = method!(
    c"copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:",
    c"v@:@Q@QQ",
    copy,
    fn(This<Encoder>, Sel, This<Buffer>, usize, This<Buffer>, usize, usize)
);

pub const FILL: Method = method!(
    c"fillBuffer:range:value:",
    c"v@:@{_NSRange=QQ}C",
    fill,
    fn(This<Encoder>, Sel, This<Buffer>, Range, u8)
);

pub const RESOLVE: Method = method!(
    c"resolveCounters:inRange:destinationBuffer:destinationOffset:",
    c"v@:@{_NSRange=QQ}@Q",
    resolve,
    fn(This<Encoder>, Sel, This<SampleBuffer>, Range, This<Buffer>, usize)
);

unsafe extern "C" fn resolve(
    this: This<Encoder>,
    sel: Sel,
    samples: This<SampleBuffer>,
    range: Range,
    to: This<Buffer>,
    offset: usize,
) {
    let Some((_entered, mut state)) = this.enter(sel.name()) else { return };
    let last = range.location + range.length.max(1) - 1;
    if samples.has(last) && lies_inside(to, offset, 8 * range.length) {
        this.uses(&mut state, to);
        let samples = samples.retain();
        state.pass.steps.push(Step::Resolve { samples, range, to: place(to, offset) });
    }
}

/// Whether bytes lie inside a buffer and are aligned, as macOS asks for.
fn lies_inside(buffer: This<Buffer>, offset: usize, bytes: usize) -> bool {
    let inside = offset.checked_add(bytes).is_some_and(|end| end <= buffer.memory.len());
    let aligned = offset.is_multiple_of(4) && bytes.is_multiple_of(4);
    if !inside || !aligned || bytes == 0 {
        violation(
            Rule::CopyOutside,
            format_args!("{bytes} bytes at {offset} of a buffer of {}", buffer.memory.len()),
        );
    }
    inside && aligned && bytes > 0
}

fn place(buffer: This<Buffer>, offset: usize) -> Place {
    Place { memory: Arc::clone(&buffer.memory), offset }
}

unsafe extern "C" fn copy(
    this: This<Encoder>,
    sel: Sel,
    from: This<Buffer>,
    from_offset: usize,
    to: This<Buffer>,
    to_offset: usize,
    bytes: usize,
) {
    let Some((_entered, mut state)) = this.enter(sel.name()) else { return };
    if lies_inside(from, from_offset, bytes) && lies_inside(to, to_offset, bytes) {
        this.uses(&mut state, from);
        this.uses(&mut state, to);
        state.pass.steps.push(Step::Copy {
            from: place(from, from_offset),
            to: place(to, to_offset),
            bytes,
        });
    }
}

unsafe extern "C" fn fill(
    this: This<Encoder>,
    sel: Sel,
    to: This<Buffer>,
    range: Range,
    value: u8,
) {
    let Some((_entered, mut state)) = this.enter(sel.name()) else { return };
    if lies_inside(to, range.location, range.length) {
        this.uses(&mut state, to);
        state.pass.steps.push(Step::Fill {
            to: place(to, range.location),
            bytes: range.length,
            value,
        });
    }
}
