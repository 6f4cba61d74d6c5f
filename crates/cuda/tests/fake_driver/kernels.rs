//! Kernels are compiled once per key, where they are really compiled.

use std::sync::Barrier;
use std::time::Duration;

use millstream_core::{Buffer, Command, Config, Device, Error, Operand, Result, Stream, UnaryOp};

use crate::linux::{Test, ask, open, row};

pub const TESTS: &[Test] = &[
    (
        "invariant_08_a_kernel_is_compiled_once_for_all_threads",
        invariant_08_a_kernel_is_compiled_once_for_all_threads,
    ),
    ("invariant_08_others_wait_for_that_key_only", invariant_08_others_wait_for_that_key_only),
    (
        "invariant_08_a_wait_for_a_compile_ends_at_its_deadline",
        invariant_08_a_wait_for_a_compile_ends_at_its_deadline,
    ),
    ("invariant_08_a_failed_compile_is_tried_again", invariant_08_a_failed_compile_is_tried_again),
    ("compiled_kernels_are_kept_up_to_a_number", compiled_kernels_are_kept_up_to_a_number),
];

/// Not a time that a test may depend on.
const LONG: Duration = Duration::from_secs(60);

const UNARY: [UnaryOp; 19] = [
    UnaryOp::Abs,
    UnaryOp::Neg,
    UnaryOp::Sign,
    UnaryOp::Relu,
    UnaryOp::Exp,
    UnaryOp::Expm1,
    UnaryOp::Log,
    UnaryOp::Log1p,
    UnaryOp::Log2,
    UnaryOp::Sqrt,
    UnaryOp::Rsqrt,
    UnaryOp::Reciprocal,
    UnaryOp::Square,
    UnaryOp::Sin,
    UnaryOp::Cos,
    UnaryOp::Tan,
    UnaryOp::Asin,
    UnaryOp::Acos,
    UnaryOp::Atan,
];

type Recorded<'a> = Result<Command<&'a Buffer>>;

/// A Command on memory of its own.
struct Call {
    made: Buffer,
    _ones: Buffer,
}

impl Call {
    fn new(
        stream: &Stream,
        command: impl for<'a> FnOnce(Operand<&'a Buffer>, Operand<&'a Buffer>) -> Recorded<'a>,
    ) -> Self {
        let [made, ones] = [(); 2].map(|()| stream.allocate(row(4).dense_bytes()).unwrap());
        stream.upload(ones.operand(row(4)), &[1.0f32; 4]).unwrap();
        let command = command(made.operand(row(4)), ones.operand(row(4)));
        stream.record(command.unwrap()).unwrap();
        stream.flush().unwrap();
        Self { made, _ones: ones }
    }

    fn softmax(stream: &Stream) -> Self {
        Self::new(stream, |to, from| Command::softmax(to, from, 0, false))
    }

    fn unary(stream: &Stream, op: UnaryOp) -> Self {
        Self::new(stream, |to, from| Command::unary(op, to, from))
    }

    /// Whether it was computed. The driver does not say what.
    fn finish(&self, stream: &Stream) -> Result<()> {
        let download = stream.download(self.made.operand(row(4)))?;
        download.timepoint().wait_within(LONG)?;
        download.read::<f32>().map(drop)
    }
}

/// What `work` has compiled.
fn compiles(work: impl FnOnce()) -> u64 {
    let before = ask(c"fake_compiles");
    work();
    ask(c"fake_compiles") - before
}

fn invariant_08_a_kernel_is_compiled_once_for_all_threads() {
    const THREADS: usize = 12;
    let device = open();
    let barrier = Barrier::new(THREADS);
    let compiled = compiles(|| {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let barrier = &barrier;
                scope.spawn(move || {
                    let stream = Stream::new(&device).unwrap();
                    barrier.wait();
                    // One that all want, one of its own, and some in another order in every thread.
                    Call::softmax(&stream).finish(&stream).unwrap();
                    for index in [thread, 12, 13 + thread % 5, 13 + (thread + 1) % 5] {
                        Call::unary(&stream, UNARY[index]).finish(&stream).unwrap();
                    }
                });
            }
        });
    });
    assert_eq!(compiled, 1 + THREADS as u64 + 1 + 5);
}

/// Begins a compile that ends at `fake_release`, and returns when the compiler is at it.
fn hold_softmax<'scope>(scope: &'scope std::thread::Scope<'scope, '_>, device: Device) {
    let before = ask(c"fake_compiles");
    ask(c"fake_hold_softmax");
    scope.spawn(move || {
        let stream = Stream::new(&device).unwrap();
        Call::softmax(&stream).finish(&stream).unwrap();
    });
    while ask(c"fake_compiles") == before {
        std::thread::yield_now();
    }
}

fn invariant_08_others_wait_for_that_key_only() {
    let device = open();
    std::thread::scope(|scope| {
        hold_softmax(scope, device);
        let stream = Stream::new(&device).unwrap();
        let compiled = compiles(|| {
            for op in UNARY {
                Call::unary(&stream, op).finish(&stream).unwrap();
            }
        });
        ask(c"fake_release");
        assert_eq!(compiled, UNARY.len() as u64);
        assert_eq!(compiles(|| Call::softmax(&stream).finish(&stream).unwrap()), 0);
    });
}

fn invariant_08_a_wait_for_a_compile_ends_at_its_deadline() {
    const WAITERS: usize = 4;
    let device = Device::builder("cuda").wait_timeout(Duration::from_millis(200)).open().unwrap();
    std::thread::scope(|scope| {
        hold_softmax(scope, device);
        let wait = move || {
            let stream = Stream::new(&device).unwrap();
            Call::softmax(&stream).finish(&stream).unwrap_err()
        };
        let waiters = [(); WAITERS].map(|()| scope.spawn(wait));
        let errors = waiters.map(|waiter| waiter.join().unwrap());
        ask(c"fake_release");
        for error in errors {
            assert!(matches!(error, Error::Compile { .. }) && error.is_retryable(), "{error}");
            assert!(error.to_string().contains("Softmax"), "{error}");
        }
    });
    let stream = Stream::new(&device).unwrap();
    assert_eq!(compiles(|| Call::softmax(&stream).finish(&stream).unwrap()), 0);
}

fn invariant_08_a_failed_compile_is_tried_again() {
    let stream = open().stream().unwrap();
    ask(c"fake_refuse_compiles");
    for _ in 0..2 {
        let compiled = compiles(|| {
            let error = Call::softmax(&stream).finish(&stream).unwrap_err();
            assert!(matches!(error, Error::Compile { .. }), "{error}");
        });
        assert_eq!(compiled, 1);
    }
    ask(c"fake_allow_compiles");
    for compiled in [1, 0] {
        assert_eq!(compiles(|| Call::softmax(&stream).finish(&stream).unwrap()), compiled);
    }
}

/// So many for good, and the 16 used last beyond that.
fn compiled_kernels_are_kept_up_to_a_number() {
    let config = Config { kernel_cache: 2, ..Config::default() };
    let stream = Device::builder("cuda").config(config).open().unwrap().stream().unwrap();
    let mut held = Vec::new();
    let mut compiled = |ops: &[UnaryOp]| {
        compiles(|| {
            for &op in ops {
                held.push(Call::unary(&stream, op));
                held[held.len() - 1].finish(&stream).unwrap();
            }
        })
    };
    let (kept, spare, last) = (&UNARY[..2], &UNARY[2..18], &UNARY[18..]);
    assert_eq!(compiled(kept) + compiled(spare), 18);
    assert_eq!(compiled(spare) + compiled(kept), 0, "a hot kernel is not compiled again");
    assert_eq!(compiled(last), 1);
    assert_eq!(compiled(&spare[..1]), 1, "the one that was not used for longest went");
    assert_eq!(compiled(kept), 0);
}
