//! A compiler that refuses, and one that takes long.

use std::sync::mpsc::channel;
use std::time::Duration;

use millstream::command::{Command, UnaryOp};
use millstream::{Error, Stream};
use millstream_metal_driver::control::{self, Refusal};

use crate::kit::{alone, error_of, filled, negated, open, open_with, row, set_variable, value};

alone! {
    fn a_text_that_the_compiler_refuses_is_an_error_of_its_key_and_is_tried_again() {
        let device = open();
        let stream = device.stream().unwrap();
        let from = filled(&stream, 2.0).unwrap();
        assert_eq!(value(&stream, &from).unwrap(), 2.0);
        let words = [
            (Refusal::Library, "the compiler service was interrupted"),
            (Refusal::Text, "this_is_no_type"),
            (Refusal::Pipeline, "could not allocate memory"),
        ];
        for (refusal, words) in words {
            control::refuse_next(refusal);
            let (error, text) = error_of(negated(&stream, &from).and_then(|b| value(&stream, &b)));
            let Error::Compile { key, message } = &error else { panic!("{refusal:?}: {text}") };
            assert!(key.starts_with("ms_unary") && text.contains(&**key), "{refusal:?}: {text}");
            assert!(message.contains(words), "{refusal:?}: {text}");
            assert!(error.is_retryable(), "{text}");
            if refusal == Refusal::Text {
                // Which line it is: of which of our texts, a number, a column.
                let line = message.split(".kernel:").nth(1).and_then(|rest| rest.split(':').next());
                assert!(line.is_some_and(|line| line.parse::<u32>().is_ok_and(|line| line > 1)), "{text}");
            }
            // Other keys work meanwhile.
            assert_eq!(value(&stream, &filled(&stream, 5.0).unwrap()).unwrap(), 5.0);
        }
        assert_eq!(value(&stream, &negated(&stream, &from).unwrap()).unwrap(), -2.0);
    }

    fn a_compiler_that_takes_long_holds_up_its_own_kernel_only() {
        let device = open();
        let stream = Stream::new(&device).unwrap();
        let from = filled(&stream, 2.0).unwrap();
        assert_eq!(value(&stream, &from).unwrap(), 2.0);
        control::hold_compiler(true);
        let (asks, asked) = channel();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let own = Stream::new(&device).unwrap();
                asks.send(()).unwrap();
                value(&own, &negated(&own, &from).unwrap()).unwrap()
            });
            asked.recv().unwrap();
            for call in 0..20 {
                let call = call as f32;
                assert_eq!(value(&stream, &filled(&stream, call).unwrap()).unwrap(), call);
            }
            assert!(!waiting.is_finished());
            control::hold_compiler(false);
            assert_eq!(waiting.join().unwrap(), -2.0);
        });
    }

    /// A pipeline is the second step of the compiler, and may take as long as the first.
    fn a_pipeline_that_takes_long_holds_up_its_own_kernel_only() {
        let device = open();
        let stream = Stream::new(&device).unwrap();
        let from = filled(&stream, 2.0).unwrap();
        assert_eq!(value(&stream, &from).unwrap(), 2.0);
        control::hold_next_pipeline();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let own = Stream::new(&device).unwrap();
                value(&own, &negated(&own, &from).unwrap()).unwrap()
            });
            while !control::is_pipeline_held() {
                std::thread::yield_now();
            }
            // Another kernel, with a text and a pipeline of its own.
            let (other, others) = channel();
            let own = Stream::new(&device).unwrap();
            scope.spawn(move || {
                let from = filled(&own, -3.0).unwrap();
                let to = own.allocate(row().dense_bytes()).unwrap();
                own.record(Command::unary(UnaryOp::Abs, to.operand(row()), from.operand(row())).unwrap()).unwrap();
                other.send(value(&own, &to).unwrap()).unwrap();
            });
            let result = others.recv_timeout(Duration::from_secs(30));
            let was_held = !waiting.is_finished();
            control::release_pipeline();
            assert_eq!(result, Ok(3.0));
            assert!(was_held);
            assert_eq!(waiting.join().unwrap(), -2.0);
        });
    }

    /// Kernels of a batch are compiled in one library. Where that is refused, one by one.
    fn kernels_that_do_not_compile_together_are_compiled_one_by_one() {
        set_variable("MILLSTREAM_METAL_LOG", "1");
        let device = open();
        let stream = device.stream().unwrap();
        control::refuse_next(Refusal::Text);
        let from = filled(&stream, 2.0).unwrap();
        assert_eq!(value(&stream, &negated(&stream, &from).unwrap()).unwrap(), -2.0);
    }

    /// A thread that waits for kernels that another compiles waits until its deadline, and then compiles its own.
    fn a_thread_that_waits_for_the_kernels_of_another_goes_on_at_its_deadline() {
        let device = open_with(|builder| builder.wait_timeout(Duration::from_millis(200)));
        control::hold_compiler(true);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let own = Stream::new(&device).unwrap();
                    let negated = filled(&own, 2.0).and_then(|from| negated(&own, &from)).unwrap();
                    // The compiler may take longer than the deadline.
                    while value(&own, &negated).is_err() {}
                    assert_eq!(value(&own, &negated).unwrap(), -2.0);
                });
            }
            // A library of both kernels, and one of the first alone.
            while control::waiting_texts() < 2 {
                std::thread::yield_now();
            }
            control::hold_compiler(false);
        });
    }

    /// A cache of one kernel has sixteen more that were used last.
    fn a_kernel_that_leaves_the_cache_is_released_when_the_gpu_is_through() {
        use UnaryOp::*;
        set_variable("MILLSTREAM_KERNEL_CACHE", "1");
        let device = open();
        let stream = device.stream().unwrap();
        control::set_seed(1);
        for _ in 0..2 {
            for op in [Abs, Neg, Sign, Relu, Exp, Sqrt, Rsqrt, Reciprocal, Square, Sin, Cos, Tan, Atan, Sinh, Cosh, Tanh, Erf, Floor, Ceil, Round] {
                let from = filled(&stream, 0.0).unwrap();
                let to = stream.allocate(row().dense_bytes()).unwrap();
                stream.record(Command::unary(op, to.operand(row()), from.operand(row())).unwrap()).unwrap();
                stream.synchronize().unwrap();
            }
        }
        // Batches that could come again keep theirs.
        device.close().unwrap();
        let kept = millstream_metal::kept_objects();
        let pipelines = kept.iter().find(|(name, _)| *name == "MTLComputePipelineState");
        assert!(pipelines.is_some_and(|(_, count)| *count <= 3 + 1 + 16), "{kept:?}");
    }
}
