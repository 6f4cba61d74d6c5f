use super::*;

/// Whether NVRTC can be loaded here; says so when it cannot.
fn present() -> bool {
    // SAFETY: opens and closes the library.
    let present = unsafe { sys::is_culib_present() };
    if !present {
        assert!(std::env::var_os("MILLSTREAM_REQUIRE_NVRTC").is_none(), "NVRTC is missing");
        eprintln!("SKIPPED: NVRTC is not in LD_LIBRARY_PATH");
    }
    present
}

#[test]
fn the_kernels_of_this_backend_compile_for_every_architecture() {
    if !present() {
        return;
    }
    for architecture in ["sm_80", "sm_90", "sm_100", "sm_120"] {
        let image = compile("builtin", crate::builtin::SOURCE, architecture).unwrap();
        assert_eq!(image[..4], *b"\x7fELF", "{architecture}");
    }
}

#[test]
fn a_mistake_is_reported_with_its_line() {
    if !present() {
        return;
    }
    let error = compile("bad", "\n__global__ void k() { nonsense(); }", "sm_90").unwrap_err();
    let text = error.to_string();
    assert!(text.contains("bad.cu(2)") && text.contains("nonsense"), "{text}");
}
