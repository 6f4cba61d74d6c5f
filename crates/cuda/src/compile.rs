//! NVRTC: from CUDA C++ to machine code for one architecture.
//!
//! Machine code rather than PTX: a driver refuses PTX of a compiler newer than itself, but takes machine
//! code of the same major version. Results are kept on disk; see [`millstream_kernels::cache`].

use std::ffi::{CStr, CString};
use std::sync::OnceLock;
use std::time::Instant;

use cudarc::nvrtc::sys::{self, nvrtcProgram, nvrtcResult};
use millstream_core::{Error, Result};
use millstream_gpu::before_exit;
use millstream_kernels::cache::{Cache, CacheKey};

use crate::settings;

struct Program(nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created in `compile` and destroyed only here.
        unsafe { sys::nvrtcDestroyProgram(&mut self.0) };
    }
}

/// The options of every compilation.
pub(crate) fn options(architecture: &str) -> [String; 3] {
    [format!("--gpu-architecture={architecture}"), "--std=c++17".into(), "--fmad=true".into()]
}

/// Machine code for an architecture such as `sm_90`, from the disk if it was compiled before.
///
/// # Errors
///
/// What the compiler said, line by line.
pub(crate) fn compile_once(name: &str, source: &str, architecture: &str) -> Result<Vec<u8>> {
    let build = || {
        let started = Instant::now();
        let image = compile_before_exit(name, source, architecture)?;
        settings::log(|| format!("compiled {name} in {:?}", started.elapsed()));
        Ok(image)
    };
    let Some(cache) = cache() else { return build() };
    // Compilers of one major version give code that does the same, so which of them it was is no part
    // of the key.
    let options = options(architecture).join(" ");
    let key = CacheKey::of(&[b"cuda 13", options.as_bytes(), source.as_bytes()]);
    cache.get_or_build(key, build)
}

/// The kernels on disk, unless they are switched off or cannot be had, which only costs time.
fn cache() -> Option<&'static Cache> {
    static CACHE: OnceLock<Option<Cache>> = OnceLock::new();
    let open = || {
        let off = std::env::var_os("MILLSTREAM_CACHE_DIR").is_some_and(|value| value == "off");
        let log = |error| settings::log(|| format!("no cache of kernels: {error}"));
        (!off).then(|| Cache::open().map_err(log).ok()).flatten()
    };
    CACHE.get_or_init(open).as_ref()
}

/// As [`compile`], unless the process exits: the compiler ends with it, under the feet of whoever is in it.
fn compile_before_exit(name: &str, source: &str, architecture: &str) -> Result<Vec<u8>> {
    let ends = || failed(name, "the process exits".into());
    before_exit(|| compile(name, source, architecture)).unwrap_or_else(|| Err(ends()))
}

/// Machine code for an architecture such as `sm_90`.
///
/// # Errors
///
/// What the compiler said, line by line.
pub(crate) fn compile(name: &str, source: &str, architecture: &str) -> Result<Vec<u8>> {
    let bad = |what: &str| failed(name, format!("{what} holds a zero byte"));
    let text = CString::new(source).map_err(|_| bad("the source"))?;
    let file = CString::new(format!("{name}.cu")).map_err(|_| bad("the name"))?;
    let mut program = Program(std::ptr::null_mut());
    // SAFETY: both texts end in a zero and live through the call; there are no headers.
    check("nvrtcCreateProgram", name, unsafe {
        sys::nvrtcCreateProgram(
            &mut program.0,
            text.as_ptr(),
            file.as_ptr(),
            0,
            std::ptr::null(),
            std::ptr::null(),
        )
    })?;
    let options = options(architecture)
        .map(|option| CString::new(option).map_err(|_| bad("an option")))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: the program was created above; the options end in a zero and live through the call.
    let status =
        unsafe { sys::nvrtcCompileProgram(program.0, pointers.len() as i32, pointers.as_ptr()) };
    if status != nvrtcResult::NVRTC_SUCCESS {
        let log = log(&program).unwrap_or_default();
        return Err(failed(
            name,
            format!("nvrtcCompileProgram gave {status:?} for {architecture}: {log}"),
        ));
    }
    let mut bytes = 0;
    // SAFETY: the program was compiled, and `bytes` is a place for the result.
    check("nvrtcGetCUBINSize", name, unsafe { sys::nvrtcGetCUBINSize(program.0, &mut bytes) })?;
    let mut image = vec![0u8; bytes];
    // SAFETY: the place is as large as the compiler asked for.
    check("nvrtcGetCUBIN", name, unsafe {
        sys::nvrtcGetCUBIN(program.0, image.as_mut_ptr().cast())
    })?;
    if image.is_empty() {
        return Err(failed(name, format!("the compiler gave no machine code for {architecture}")));
    }
    Ok(image)
}

fn log(program: &Program) -> Result<String> {
    let mut bytes = 0;
    // SAFETY: a program, and a place for the result.
    check("nvrtcGetProgramLogSize", "log", unsafe {
        sys::nvrtcGetProgramLogSize(program.0, &mut bytes)
    })?;
    let mut text = vec![0u8; bytes];
    // SAFETY: the place is as large as the compiler asked for.
    check("nvrtcGetProgramLog", "log", unsafe {
        sys::nvrtcGetProgramLog(program.0, text.as_mut_ptr().cast())
    })?;
    Ok(String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned())
}

fn failed(name: &str, message: String) -> Error {
    Error::Compile { key: name.to_owned(), message: message.into() }
}

fn check(call: &str, name: &str, status: nvrtcResult) -> Result<()> {
    if status == nvrtcResult::NVRTC_SUCCESS {
        return Ok(());
    }
    // SAFETY: gives a constant text for any status.
    let text = unsafe { CStr::from_ptr(sys::nvrtcGetErrorString(status)) };
    Err(failed(name, format!("{call} gave {status:?} ({})", text.to_string_lossy())))
}

#[cfg(test)]
mod tests;
