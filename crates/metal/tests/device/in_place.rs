//! Memory that host and GPU share: results are read where they lie, and files are not copied.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millstream::command::{Command, UnaryOp};
use millstream::dtype::as_bytes;
use millstream::memory::{Buffer, Layout};
use millstream::nn::load;
use millstream::{DType, Device, Error, Stream};
use millstream_metal_driver::control::{self, Fault, Refusal};

use crate::kit::{alone, error_of, filled, negated, open, row, warm_up};

const COUNT: usize = 5000;

/// Numbers that somebody keeps, and says when they are gone.
struct Numbers {
    values: Vec<f32>,
    gone: Arc<AtomicBool>,
}

impl AsRef<[u8]> for Numbers {
    fn as_ref(&self) -> &[u8] {
        as_bytes(&self.values)
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        self.values.fill(f32::NAN);
        self.gone.store(true, Ordering::Release);
    }
}

fn numbers() -> (Arc<Numbers>, Arc<AtomicBool>) {
    let gone = Arc::<AtomicBool>::default();
    let values = (0..COUNT).map(|i| i as f32).collect();
    (Arc::new(Numbers { values, gone: Arc::clone(&gone) }), gone)
}

/// All but the first four of them, as an operand: a buffer and where in it they begin.
fn wrapped(stream: &Stream, owner: Arc<Numbers>) -> Option<(Buffer, Layout)> {
    let (buffer, offset) = stream.wrap(owner, 16..4 * COUNT).unwrap()?;
    assert!(buffer.is_settled() && offset % 4 == 0);
    let layout = Layout::strided(DType::F32, &[COUNT - 4], &[1], offset / 4).unwrap();
    Some((buffer, layout))
}

fn negative(stream: &Stream, buffer: &Buffer, layout: Layout) -> Buffer {
    let to = stream.allocate(layout.dense_bytes()).unwrap();
    let dense = Layout::contiguous(DType::F32, layout.shape()).unwrap();
    let command = Command::unary(UnaryOp::Neg, to.operand(dense), buffer.operand(layout));
    stream.record(command.unwrap()).unwrap();
    to
}

fn check_negative(stream: &Stream, buffer: &Buffer) {
    let dense = Layout::contiguous(DType::F32, &[COUNT - 4]).unwrap();
    let found: Vec<f32> = stream.read(buffer.operand(dense)).unwrap().read().unwrap();
    assert!(found.iter().enumerate().all(|(i, x)| *x == -(i as f32 + 4.0)), "{found:?}");
}

/// Waits for a condition that comes soon.
fn until(what: &str, is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::yield_now();
    }
}

/// A `.safetensors` file with one tensor of 512 × 512 numbers, whose bytes begin at a multiple of 16, or 8 behind one.
fn file(name: &str, aligned: bool) -> std::path::PathBuf {
    let bytes = 512 * 512 * 4;
    let mut header =
        format!(r#"{{"w":{{"dtype":"F32","shape":[512,512],"data_offsets":[0,{bytes}]}}}}"#);
    while (header.len() + 8) % 16 != if aligned { 0 } else { 8 } {
        header.push(' ');
    }
    let mut content = (header.len() as u64).to_le_bytes().to_vec();
    content.extend(header.bytes());
    content.extend((0..512 * 512).flat_map(|i| (i as f32).to_le_bytes()));
    let path = std::env::temp_dir().join(format!("{name}-{}.safetensors", std::process::id()));
    std::fs::write(&path, content).unwrap();
    path
}

/// Bytes that the device has for what a file holds, after it was loaded and read.
fn loaded(device: &Device, path: &std::path::Path) -> usize {
    let before = device.memory().in_use;
    let tensors = load(path, device).unwrap();
    std::fs::remove_file(path).unwrap();
    let taken = device.memory().in_use - before;
    let negative = tensors["w"].neg().unwrap();
    let found = tensors["w"].to_vec::<f32>().unwrap();
    assert!(found.iter().enumerate().all(|(i, x)| *x == i as f32));
    assert_eq!(negative.to_vec::<f32>().unwrap()[7], -7.0);
    taken
}

/// Numbers in pages of their own, which are there as long as this.
struct Pages {
    first: NonNull<u8>,
    bytes: usize,
    gone: Arc<AtomicBool>,
}

// SAFETY: pages that nobody writes.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    fn map(bytes: usize) -> Self {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: asks for new pages.
        let first = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        assert_ne!(first, libc::MAP_FAILED);
        Self { first: NonNull::new(first.cast()).unwrap(), bytes, gone: Arc::default() }
    }
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: mapped with this size, and nobody writes it.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.bytes) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped with this size.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.bytes) };
        self.gone.store(true, Ordering::Release);
    }
}

/// How many buffers there are.
fn buffers() -> i64 {
    let living = control::living();
    living.iter().find(|(class, _)| *class == "MillstreamBuffer").map_or(0, |(_, count)| *count)
}

alone! {
    /// Residency sets keep what they have until a commit after its removal, and an idle device commits nothing else.
    fn a_file_that_an_idle_device_lets_go_is_unmapped_behind_its_buffer() {
        let device = open();
        let stream = device.stream().unwrap();
        warm_up(&stream);
        let before = buffers();
        let pages = Arc::new(Pages::map(1 << 18));
        let gone = Arc::clone(&pages.gone);
        let (buffer, offset) = stream.wrap(pages, 0..1 << 18).unwrap().expect("a buffer");
        let some = Layout::strided(DType::F32, &[64], &[1], offset / 4).unwrap();
        let result = negative(&stream, &buffer, some);
        stream.synchronize().unwrap();
        assert_eq!(buffers(), before + 1);
        drop((result, buffer));
        until("its pages go", || gone.load(Ordering::Acquire));
        // Nothing was submitted meanwhile.
        assert_eq!(buffers(), before);
    }

    fn results_are_read_where_they_lie() {
        let stream = open().stream().unwrap();
        warm_up(&stream);
        stream.synchronize().unwrap();
        let before = stream.counters().commands;
        for round in 1..=5 {
            let from = filled(&stream, round as f32).unwrap();
            let to = negated(&stream, &from).unwrap();
            let found: Vec<f32> = stream.read(to.operand(row())).unwrap().read().unwrap();
            assert!(found.iter().all(|x| *x == -(round as f32)), "{found:?}");
        }
        assert_eq!(stream.counters().commands - before, 10, "nothing is downloaded");
    }

    fn bytes_of_the_host_are_read_where_they_lie_and_kept_until_the_gpu_is_through() {
        let device = open();
        let stream = Stream::new(&device).unwrap();
        warm_up(&stream);
        let (owner, gone) = numbers();
        let (buffer, layout) = wrapped(&stream, owner).unwrap();
        let first = negative(&stream, &buffer, layout);
        check_negative(&stream, &first);
        let (error, text) = error_of(Command::fill(buffer.operand(layout), 1.0f32)
            .and_then(|command| stream.record(command)));
        assert!(matches!(error, Error::Settled { .. }), "{text}");
        // The last work on it takes its time.
        control::fault_next(Fault::Hang(Duration::from_millis(100)));
        let second = negative(&stream, &buffer, layout);
        stream.flush().unwrap();
        drop(buffer);
        assert!(!gone.load(Ordering::Acquire), "the GPU uses it");
        check_negative(&stream, &second);
        stream.synchronize().unwrap();
        until("what nobody uses is given back", || {
            // What was dropped goes when the device is looked after again.
            drop(wrapped(&stream, numbers().0));
            gone.load(Ordering::Acquire)
        });
    }

    fn bytes_that_cannot_be_wrapped_are_left_to_the_caller() {
        let stream = open().stream().unwrap();
        let (owner, gone) = numbers();
        let (_, text) = error_of(stream.wrap(Arc::clone(&owner) as _, 0..4 * COUNT + 1));
        assert!(text.contains("20001") && text.contains("20000"), "{text}");
        assert!(stream.wrap(Arc::clone(&owner) as _, 8..8).unwrap().is_none());
        control::refuse_next(Refusal::Buffer);
        assert!(wrapped(&stream, Arc::clone(&owner)).is_none());
        drop(owner);
        assert!(gone.load(Ordering::Acquire), "nobody keeps it");
    }

    fn large_tensors_of_a_file_are_not_copied_where_pages_and_alignment_allow() {
        let device = open();
        assert_eq!(loaded(&device, &file("aligned", true)), 0);
        assert!(loaded(&device, &file("unaligned", false)) >= 512 * 512 * 4);
    }
}
