use super::*;

#[test]
fn errors_of_kernels_are_sticky_and_a_lack_of_memory_is_not() {
    assert!(is_sticky(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
    assert!(is_sticky(CUresult::CUDA_ERROR_ECC_UNCORRECTABLE));
    assert!(!is_sticky(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
    assert!(!is_sticky(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
    assert!(!is_sticky(CUresult::CUDA_ERROR_NOT_READY));
}
