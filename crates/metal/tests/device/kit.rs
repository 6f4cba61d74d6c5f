//! What the tests share.

use std::process::Command as Process;
use std::sync::Mutex;
use std::time::Duration;

use millstream::command::{Command, UnaryOp};
use millstream::device::{DeviceBuilder, HealthState};
use millstream::memory::{Buffer, Layout};
use millstream::{DType, Device, Error, Result, Stream};
use millstream_metal_driver::{control, rules};

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
        nothing_is_left();
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

/// What the tests opened. Each is closed at the end of its test.
static OPENED: Mutex<Vec<Device>> = Mutex::new(Vec::new());

/// The device, with deadlines that a busy machine keeps.
pub fn open() -> Device {
    open_with(|builder| builder)
}

/// The same, with something changed.
pub fn open_with(change: impl FnOnce(DeviceBuilder) -> DeviceBuilder) -> Device {
    let device =
        change(Device::builder("metal").wait_timeout(Duration::from_secs(60))).open().unwrap();
    OPENED.lock().unwrap().push(device);
    device
}

/// The test ends in the middle of work: nothing is closed, and what lives is not counted.
pub fn leave_open() {
    OPENED.lock().unwrap().clear();
}

/// Closes the devices: what lives then is what the process keeps. On a device that was lost it is unknown what the GPU still
/// uses, so nothing is released there.
fn nothing_is_left() {
    let opened = std::mem::take(&mut *OPENED.lock().unwrap());
    if opened.is_empty() || opened.iter().any(|device| device.health().state == HealthState::Lost) {
        return;
    }
    for device in opened {
        // The last call of a test may be one that fails on purpose.
        let _ = device.close();
    }
    control::expect_left(&millstream_metal::kept_objects(), Duration::from_secs(20));
}

/// A number of the environment, or the usual one: ThreadSanitizer has no room for as many seeds and threads.
pub fn set_number(key: &str, usual: u64) -> u64 {
    std::env::var(key)
        .map_or(usual, |value| value.parse().unwrap_or_else(|_| panic!("{key} is a number")))
}

/// Sets a variable of the environment, before the device is opened.
pub fn set_variable(key: &str, value: &str) {
    // SAFETY: no other thread of this process uses the environment: the test has the process for itself.
    unsafe { std::env::set_var(key, value) };
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
