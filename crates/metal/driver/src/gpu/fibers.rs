//! The fibers: those that run the host dialect of the kernels, as one shared object of this process.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::compile::{open, symbol};
use super::toolchain::{folder, run, sanitized};
use crate::deviations::{Deviation, deviates};

type Dispatch = unsafe extern "C" fn(
    *const c_void,
    *const u64,
    *const u32,
    u32,
    *const u64,
    u32,
    *const c_void,
    c_int,
    u64,
) -> *const c_char;

/// The runtime's entry, or why it cannot be had.
fn dispatch() -> Result<Dispatch, String> {
    static DISPATCH: OnceLock<Result<usize, String>> = OnceLock::new();
    let address = DISPATCH.get_or_init(|| {
        let text = include_str!("../../../../kernels/tests/host/runtime.cpp");
        let flag = if sanitized() { "-DWITH_TSAN" } else { "-DSPOIL" };
        // Built once for all processes of a user: it takes longer than most tests.
        let mut hasher = DefaultHasher::new();
        (text, flag, FLAGS).hash(&mut hasher);
        let kept = folder()?.join("cache").join(format!("runtime-{:016x}.so", hasher.finish()));
        if !kept.exists() {
            build(text, flag, &kept)?;
        }
        let handle = open(&kept, libc::RTLD_GLOBAL);
        Ok(symbol(handle?, "host_dispatch")?.addr())
    });
    let address = address.clone()?;
    // SAFETY: the runtime defines the function with exactly these parameters.
    Ok(unsafe { std::mem::transmute::<usize, Dispatch>(address) })
}

const FLAGS: [&str; 5] = ["-std=c++17", "-O1", "-g1", "-fPIC", "-shared"];

/// Builds the runtime under a name of this process, and moves it to where it is kept: another process may be reading that.
fn build(text: &str, flag: &str, kept: &Path) -> Result<(), String> {
    let file = |end: &str| -> Result<PathBuf, String> {
        Ok(folder()?.join(format!("runtime-{}.{end}", std::process::id())))
    };
    let (source, object) = (file("cpp")?, file("so")?);
    std::fs::write(&source, text).map_err(|error| error.to_string())?;
    let mut clang = Command::new("clang++-22");
    clang.args(FLAGS).args([flag, "-o"]).arg(&object).arg(&source);
    let built = run(&mut clang);
    let _ = std::fs::remove_file(&source);
    built?;
    std::fs::rename(&object, kept).map_err(|error| error.to_string())
}

/// Makes the runtime's symbols known, which kernels refer to.
pub fn load() -> Result<(), String> {
    dispatch().map(|_| ())
}

/// Runs all groups of a kernel on this thread.
///
/// # Safety
///
/// `kernel` is a launcher that is still loaded, and the addresses are those of the memory that it uses.
pub unsafe fn run_groups(
    kernel: *const c_void,
    shared: [u64; 2],
    groups: [u32; 3],
    threads: u32,
    buffers: &[u64],
    order: i32,
    seed: u64,
) -> Result<(), String> {
    let dispatch = dispatch()?;
    let flush = Flush::begin();
    // SAFETY: as the caller says; params are among the buffers in this dialect.
    let message = unsafe {
        dispatch(
            kernel,
            shared.as_ptr(),
            groups.as_ptr(),
            threads,
            buffers.as_ptr(),
            buffers.len() as u32,
            std::ptr::null(),
            order,
            seed,
        )
    };
    drop(flush);
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: the runtime gives static texts.
    Err(unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned())
}

/// Apple's GPUs take subnormal numbers for zeros, and give zeros for them, in every math mode. So does this
/// thread while one of these lives.
struct Flush {
    before: u32,
}

impl Flush {
    fn begin() -> Self {
        let before = control_word();
        if !deviates(Deviation::KeepsSubnormals) {
            // Denormals are zero, and flush to zero.
            set_control_word(before | 0x8040);
        }
        Self { before }
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        set_control_word(self.before);
    }
}

fn control_word() -> u32 {
    let mut word = 0u32;
    // SAFETY: writes the control register to a variable.
    unsafe {
        std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags))
    };
    word
}

fn set_control_word(word: u32) {
    // SAFETY: a value that was read from the register, or one with two more of its bits.
    unsafe {
        std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags, readonly))
    };
}
