use super::*;

fn written(values: &[f32], align: usize) -> HostBytes {
    let host = HostBytes::unwritten(size_of_val(values), align);
    assert!(host.as_ptr().addr().is_multiple_of(ALIGNMENT));
    // SAFETY: as many bytes as the values have, and nobody else has them.
    unsafe { host.as_mut_ptr().cast::<f32>().copy_from_nonoverlapping(values.as_ptr(), 3) };
    host
}

#[test]
fn a_vector_takes_the_memory_over_when_nobody_else_has_it() {
    let host = written(&[1.0, 2.0, 3.0], align_of::<f32>());
    let start = host.as_ptr();
    // SAFETY: written, and no command is under way.
    let vector = unsafe { host.into_vec::<f32>() }.unwrap();
    assert_eq!(vector, [1.0, 2.0, 3.0]);
    assert_eq!(vector.as_ptr().cast(), start);
}

#[test]
fn shared_memory_and_other_element_types_are_copied() {
    let host = written(&[1.0, 2.0, 3.0], align_of::<f32>());
    // SAFETY: written, and no command is under way.
    assert_eq!(unsafe { host.clone().into_vec::<f32>() }.unwrap(), [1.0, 2.0, 3.0]);
    // SAFETY: as above.
    assert_eq!(unsafe { host.into_vec::<u8>() }.unwrap().len(), 12);
    // SAFETY: nothing to write.
    assert!(unsafe { HostBytes::unwritten(0, 4).into_vec::<f32>() }.unwrap().is_empty());
}

#[test]
fn bytes_that_no_memory_has_are_a_length_and_nothing_else() {
    for bytes in [usize::MAX, isize::MAX as usize + 1, isize::MAX as usize - 64, 1 << 55] {
        for mut host in [HostBytes::zeroed(bytes), HostBytes::unwritten(bytes, 4)] {
            assert_eq!((host.len(), host.is_backed(), host.is_empty()), (bytes, false, false));
            assert!(host.elements_mut::<f32>().is_empty());
            assert!(host.keep_address().is_none());
            let error = host.check_backed().unwrap_err();
            assert_eq!(error, Error::OutOfHostMemory { requested: bytes });
            assert!(error.is_retryable());
            // SAFETY: there is nothing to write.
            assert!(unsafe { host.as_slice() }.is_empty());
            // SAFETY: as above.
            assert!(unsafe { host.into_vec::<f32>() }.unwrap().is_empty());
        }
    }
    assert!(HostBytes::zeroed(0).is_backed() && HostBytes::zeroed(0).is_empty());
    let zeros = HostBytes::zeroed(9);
    // SAFETY: nothing writes them.
    assert_eq!(unsafe { zeros.as_slice() }, [0; 9]);
}

#[test]
fn bytes_are_read_by_uploads_or_written_by_one_download() {
    let claims = |roles: &[HostRole]| {
        let host = HostBytes::zeroed(4);
        roles.iter().map(|&role| host.clone().claim(role).is_ok()).collect::<Vec<_>>()
    };
    use HostRole::{Source, Target};
    assert_eq!(claims(&[Source, Source, Target, Source]), [true, true, false, true]);
    assert_eq!(claims(&[Target, Target, Source]), [true, false, false]);
}

#[test]
fn the_first_word_on_what_failed_stays() {
    let host = HostBytes::zeroed(4);
    assert!(host.fault().is_none());
    let error = |requested| Error::OutOfHostMemory { requested };
    host.fail(&Fault::new(error(1)));
    host.clone().fail(&Fault::new(error(2)));
    assert_eq!(host.fault().map(Fault::error), Some(&error(1)));
}
