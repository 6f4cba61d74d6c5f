//! Uploads of many bytes: several threads copy them piece by piece to memory that the device reaches, while it
//! transfers the pieces before. One thread copies at a fraction of the rate at which a device takes them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use super::transfer::reached;
use super::{Stream, Timepoint};
use crate::{Buffer, Command, HostBytes, Layout, Operand, Result};

/// Fewer bytes are copied by the calling thread: starting others would take as long.
const LEAST: usize = 32 << 20;
/// Bytes of a piece. The smaller it is, the sooner the device starts; but it takes a time of its own for each.
const PIECE: usize = 2 << 20;
/// The most threads that copy.
const MAX_THREADS: usize = 8;
/// The most pieces of a batch. Between two batches a device pauses, so that later ones are larger.
const BATCH: usize = 8;
/// Batches that the device may have while others are copied.
const AHEAD: usize = 2;

/// A piece: which one, and the memory for it.
type Piece = (usize, HostBytes);

/// Records the upload of `bytes` to `dst` piece by piece. `None` if that would not be faster: few bytes, few cores,
/// elements that are not dense, or a device that reaches no memory of the host.
pub(super) fn upload(
    stream: &Stream,
    dst: Operand<&Buffer>,
    bytes: &[u8],
) -> Option<Result<Timepoint>> {
    if bytes.len() < LEAST {
        return None;
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    // Half of the cores are left to others.
    upload_by((cores / 2).min(MAX_THREADS), PIECE, stream, dst, bytes)
}

impl Stream {
    /// An upload by so many threads, in pieces of so many bytes, a multiple of 8. For tests.
    #[doc(hidden)]
    pub fn upload_by(
        &self,
        threads: usize,
        piece: usize,
        dst: Operand<&Buffer>,
        bytes: &[u8],
    ) -> Option<Result<Timepoint>> {
        upload_by(threads, piece, self, dst, bytes)
    }
}

fn upload_by(
    threads: usize,
    piece: usize,
    stream: &Stream,
    dst: Operand<&Buffer>,
    bytes: &[u8],
) -> Option<Result<Timepoint>> {
    let dense = dst.layout.is_contiguous()
        && !dst.layout.dtype().is_storage()
        && dst.layout.dense_bytes() == bytes.len();
    if threads < 2 || !dense {
        return None;
    }
    let first = reached(stream, piece)?;
    let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
    let (to_copy, given) = mpsc::channel::<Piece>();
    let (copied, taken) = mpsc::channel::<Piece>();
    let given = Mutex::new(given);
    // What is copied, what is gathered, and what the device has.
    let most = threads + (AHEAD + 1) * BATCH;
    thread::scope(|scope| {
        let copy = || {
            let copied = copied.clone();
            let (given, pieces) = (&given, &pieces);
            move || {
                // The lock is held while waiting: whoever has it gets the next piece.
                let next = || given.lock().unwrap_or_else(PoisonError::into_inner).recv();
                while let Ok((index, host)) = next() {
                    if copied.send((index, host.written_with(pieces[index]))).is_err() {
                        return;
                    }
                }
            }
        };
        let upload = Upload { stream, dst, piece, pieces: &pieces, to_copy, taken };
        let mut first = Some(first);
        // The first threads copy while others are started.
        let handed_out = upload.hand_out(0, most, &mut first);
        let started = (0..threads)
            .filter(|_| thread::Builder::new().spawn_scoped(scope, copy()).is_ok())
            .count();
        // Dropping the upload ends the threads.
        (started > 0).then(|| upload.run(handed_out, most))
    })
}

/// An upload under way, as its caller sees it.
struct Upload<'a> {
    stream: &'a Stream,
    dst: Operand<&'a Buffer>,
    piece: usize,
    pieces: &'a [&'a [u8]],
    to_copy: mpsc::Sender<Piece>,
    taken: mpsc::Receiver<Piece>,
}

impl Upload<'_> {
    /// Hands out pieces from `next` on, up to `end`. Gives the one behind the last.
    fn hand_out(&self, next: usize, end: usize, first: &mut Option<HostBytes>) -> usize {
        let end = end.min(self.pieces.len());
        for index in next..end {
            let host = self.memory(self.pieces[index].len(), first);
            // The threads end when this is dropped, not before.
            let _ = self.to_copy.send((index, host));
        }
        next.max(end)
    }

    /// Hands out pieces and records those that are copied, with at most `most` pieces in use.
    fn run(&self, mut handed_out: usize, most: usize) -> Result<Timepoint> {
        // The last piece of each batch that the device has, and how many pieces it is.
        let mut in_flight: VecDeque<(Timepoint, usize)> = VecDeque::new();
        let (mut recorded, mut passed, mut gathered, mut wanted) = (0, 0, 0, 1);
        loop {
            handed_out = self.hand_out(handed_out, passed + most, &mut None);
            let Ok((index, host)) = self.taken.recv() else {
                unreachable!("threads that copy live as long as the upload")
            };
            let point = self.record(index, host)?;
            (recorded, gathered) = (recorded + 1, gathered + 1);
            if recorded == self.pieces.len() {
                self.stream.flush()?;
                return Ok(point);
            }
            if gathered < wanted {
                continue;
            }
            self.stream.flush()?;
            in_flight.push_back((point, gathered));
            (gathered, wanted) = (0, (2 * wanted).min(BATCH));
            if in_flight.len() > AHEAD
                && let Some((oldest, count)) = in_flight.pop_front()
            {
                oldest.wait_passed()?;
                passed += count;
            }
        }
    }

    /// Memory for a piece: of the device if it has some left.
    fn memory(&self, bytes: usize, first: &mut Option<HostBytes>) -> HostBytes {
        let kept = first.take().filter(|host| host.len() == bytes);
        kept.or_else(|| reached(self.stream, bytes))
            .unwrap_or_else(|| HostBytes::unwritten(bytes, size_of::<u64>()))
    }

    fn record(&self, index: usize, host: HostBytes) -> Result<Timepoint> {
        let layout = &self.dst.layout;
        let size = layout.dtype().size();
        let (start, count) = (index * self.piece / size, host.len() / size);
        let piece = Layout::strided(layout.dtype(), &[count], &[1], layout.offset() + start)?;
        self.stream.record(Command::upload(Operand::new(self.dst.buffer, piece), host)?)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
