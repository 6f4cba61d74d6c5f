//! What the tests share.

use std::process::Command as Process;
use std::time::Duration;

use millstream::command::{Command, UnaryOp};
use millstream::memory::{Buffer, Layout};
use millstream::{DType, Device, Error, Result, Stream};
use millstream_metal as _;
use millstream_metal_driver::rules;

pub const ALONE: &str = "MILLSTREAM_METAL_TEST";

/// Tests that each run in a process of their own.
macro_rules! alone {
    ($($(#[$about:meta])* fn $name:ident() $body:block)*) => {$(
        #[test]
        $(#[$about])*
        fn $name() {
            crate::kit::run_alone(concat!(module_path!(), "::", stringify!($name)), || $body);
        }
    )*};
}
pub(crate) use alone;

/// Whether this process is the one of a test.
fn is_alone(name: &str) -> bool {
    std::env::var(ALONE).as_deref() == Ok(name)
}

/// Runs a test here if this is its process, else starts that.
pub fn run_alone(path: &str, test: impl FnOnce()) {
    let (_, name) = path.split_once("::").expect("a test in a module");
    if is_alone(name) {
        test();
        no_rule_is_broken();
        return;
    }
    let program = std::env::current_exe().unwrap();
    let output =
        Process::new(program).args(["--exact", name, "--nocapture"]).env(ALONE, name).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{}: {text}", output.status);
}

/// No rule of Metal's was broken.
pub fn no_rule_is_broken() {
    let broken = rules::take();
    assert!(broken.is_empty(), "{broken:?}");
}

/// The device, with deadlines that a busy machine keeps.
pub fn open() -> Device {
    Device::builder("metal").wait_timeout(Duration::from_secs(60)).open().unwrap()
}

/// Numbers that the tests compute with.
pub fn row() -> Layout {
    Layout::contiguous(DType::F32, &[64]).unwrap()
}

/// A buffer of one value.
pub fn filled(stream: &Stream, value: f32) -> Result<Buffer> {
    let buffer = stream.allocate(row().dense_bytes())?;
    stream.record(Command::fill(buffer.operand(row()), value)?)?;
    Ok(buffer)
}

/// Minus what is in a buffer.
pub fn negated(stream: &Stream, from: &Buffer) -> Result<Buffer> {
    let to = stream.allocate(row().dense_bytes())?;
    stream.record(Command::unary(UnaryOp::Neg, to.operand(row()), from.operand(row()))?)?;
    Ok(to)
}

/// The value that all elements have.
pub fn value(stream: &Stream, buffer: &Buffer) -> Result<f32> {
    let values = stream.download(buffer.operand(row()))?.read::<f32>()?;
    assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
    Ok(values[0])
}

/// A call that uses a fill, a kernel and a download, all of which are compiled then.
pub fn warm_up(stream: &Stream) {
    let from = filled(stream, 2.0).unwrap();
    assert_eq!(value(stream, &negated(stream, &from).unwrap()).unwrap(), -2.0);
}

/// The error of something, and its words.
pub fn error_of<T>(result: Result<T>) -> (Error, String) {
    let Err(error) = result else { panic!("that should not work") };
    let text = error.to_string();
    (error, text)
}
