//! What errors say.

use std::error::Error as _;
use std::time::Duration;

use super::{Error, WeightProblem};

#[test]
fn a_timeout_names_stream_sequence_and_command() {
    let error = Error::Timeout {
        device: "cpu".into(),
        stream: 3,
        sequence: 17,
        command: "matmul",
        waited: Duration::from_secs(30),
    };
    let text = error.to_string();
    assert!(text.contains("stream 3") && text.contains("17") && text.contains("matmul"));
    assert!(error.is_retryable());
}

#[test]
fn a_lost_device_is_not_retryable() {
    let error = Error::DeviceLost { device: "cpu".into(), reason: "gone".into() };
    assert!(!error.is_retryable());
}

#[test]
fn debug_prints_the_plain_text_and_each_cause_once() {
    let missing = std::io::Error::new(std::io::ErrorKind::NotFound, "no such file");
    let error = Error::read("weights.safetensors", missing);
    assert_eq!(error.to_string(), "cannot read weights.safetensors: no such file");
    assert_eq!(format!("{error:?}"), error.to_string());
    assert_eq!(format!("{:?}", Some(&error)), format!("Some({error})"));
    let outer = std::io::Error::other(Outer(error));
    let text = format!("{:?}", Error::other(outer));
    assert_eq!(
        text,
        "outer\n  caused by: cannot read weights.safetensors: no such file\n  caused by: no such file"
    );
}

#[derive(Debug)]
struct Outer(Error);

impl std::fmt::Display for Outer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("outer")
    }
}

impl std::error::Error for Outer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[test]
fn the_source_of_a_file_error_is_the_systems_error() {
    let error = Error::write("x", std::io::ErrorKind::PermissionDenied.into());
    let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    assert_eq!(source.map(std::io::Error::kind), Some(std::io::ErrorKind::PermissionDenied));
    assert_eq!(error, error.clone());
    assert_ne!(error, Error::write("y", std::io::ErrorKind::PermissionDenied.into()));
    let named = Error::Invalid { op: "cat", reason: "nothing".into() };
    assert!(named.source().is_none());
}

#[test]
fn an_operation_of_operations_puts_its_name_in_place_of_theirs() {
    let mismatch = Error::Mismatch {
        op: "copy",
        operand: "output",
        expected: "f32[2]".into(),
        found: "f32[3]".into(),
    };
    assert_eq!(Error::named("cat", mismatch).to_string(), "cat: output is f32[3], expected f32[2]");
    let layout = Error::InvalidLayout { reason: "too large".into() };
    assert_eq!(Error::named("cat", layout).to_string(), "cat: too large");
    let closed = Error::DeviceClosed { device: "cpu".into() };
    assert_eq!(Error::named("cat", closed.clone()), closed);
}

#[test]
fn a_hundred_weights_that_do_not_fit_are_named_and_the_rest_counted() {
    let problem = |number| WeightProblem::Unexpected { name: format!("layer.{number}") };
    let error = Error::Weights { problems: (0..103).map(problem).collect() };
    let text = error.to_string();
    assert!(text.contains("layer.99 ") && !text.contains("layer.100 "), "{text}");
    assert!(text.ends_with("and 3 more"), "{text}");
}
