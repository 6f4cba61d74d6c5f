//! A compiler that refuses, and one that takes long.

use std::sync::mpsc::channel;

use millstream::{Error, Stream};
use millstream_metal_driver::control::{self, Refusal};

use crate::kit::{alone, error_of, filled, negated, open, value};

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
}
