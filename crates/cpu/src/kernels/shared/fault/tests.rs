use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::kernels::Sequential;
use crate::kernels::shared::parallel::CHUNK_ELEMENTS;

#[test]
fn the_first_fault_is_told_and_the_rest_is_skipped() {
    let begun = AtomicUsize::new(0);
    let body = |chunk: usize| {
        begun.fetch_add(1, Ordering::Relaxed);
        if chunk < 2 { Ok(()) } else { Err(KernelFault::new(chunk.to_string())) }
    };
    assert_eq!(try_run(&Sequential, 9, body).unwrap_err().message(), "2");
    assert_eq!(begun.swap(0, Ordering::Relaxed), 3);
    let ranges = |range: Range<usize>| body(range.start);
    let fault = try_share(&Sequential, 9, CHUNK_ELEMENTS, ranges).unwrap_err();
    assert_eq!((fault.to_string().as_str(), begun.into_inner()), ("2", 3));
    assert_eq!(try_share(&Sequential, 2, CHUNK_ELEMENTS, |_| Ok(())), Ok(()));
}
