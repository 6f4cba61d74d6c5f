//! From a text to kernels that the fibers can run.

use std::ffi::{CStr, CString, c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::fibers;
use super::signature::Signature;
use super::strict;
use super::toolchain::{self, FLAGS, LIBRARY, clang, folder, optimization, run, sanitized};
use crate::deviations::{Deviation, deviates};

/// A compiled text.
pub struct Program {
    handle: usize,
    /// The name of what it was made from.
    pub identity: String,
    pub kernels: Vec<Kernel>,
}

/// A kernel of a text.
pub struct Kernel {
    pub name: String,
    pub buffers: u32,
    pub max_threads: u32,
    /// Bytes of group memory.
    pub shared_bytes: usize,
    /// Its text uses simdgroup matrices.
    pub matrices: bool,
    /// Where its group memory begins and ends among that of the whole text.
    shared: [usize; 2],
    launch: usize,
}

/// As the fibers pass it; the runtime has the same.
const CALL: &str = "struct HostThread { uint group, group_y, group_z, groups, groups_y, groups_z, index, count, lane, simd; };\n\
    struct HostCall { HostThread at; ulong buffers[31]; ulong params; };\n";

/// Group memory is allocated for a thread when it is first used: this uses it.
const TOUCH: &str = "kernel void driver_touch(ulong x) { __local volatile ulong own; own = x; }\n\
    extern \"C\" __attribute__((visibility(\"default\"))) void driver_first_use(void) { driver_touch(1); }\n";

/// Compiles a text for a version of the language, or gives the compiler's words.
pub fn compile(source: &str, version: u32) -> Result<Program, String> {
    crate::control::wait_for_compiler();
    fibers::load()?;
    let mut hasher = DefaultHasher::new();
    let imprecise = deviates(Deviation::Imprecise);
    let how = (FLAGS, CALL, TOUCH, sanitized(), optimization(), imprecise);
    (source, version, how, LIBRARY).hash(&mut hasher);
    let name = format!("{:016x}", hasher.finish());
    let cached = folder()?.join("cache").join(&name);
    if let Some(program) = Program::load(&cached) {
        return Ok(program);
    }
    let own = format!("{name}-{}-{:?}", std::process::id(), std::thread::current().id());
    let own = folder()?.join(own.replace(['(', ')'], ""));
    let built = build(source, version, &own);
    let kept = built.and_then(|kernels| {
        // What describes it comes last: whoever finds it finds the other.
        std::fs::rename(own.with_extension("so"), cached.with_extension("so"))
            .and_then(|()| toolchain::replace(&cached.with_extension("kernels"), &kernels))
            .map_err(|error| error.to_string())
    });
    for end in ["metal", "clcpp", "ll", "so"] {
        let _ = std::fs::remove_file(own.with_extension(end));
    }
    kept?;
    Program::load(&cached).ok_or_else(|| format!("{} is gone", cached.display()))
}

/// Compiles a text to `own` with the end `so`. Gives a line for each kernel.
fn build(source: &str, version: u32, own: &Path) -> Result<String, String> {
    strict::check_pragmas(source)?;
    let file = |end: &str| own.with_extension(end);
    let write = |end: &str, text: &str| -> Result<(), String> {
        std::fs::write(file(end), text).map_err(|error| error.to_string())
    };
    write("metal", source)?;
    let plain = run(clang(version)?.args(["-E", "-P"]).arg(file("metal")))?;
    let signatures = Signature::read_all(&plain)?;
    let mut text = format!("#include \"{}\"\n{CALL}{TOUCH}", file("metal").display());
    text.extend(signatures.iter().map(Signature::launcher));
    write("clcpp", &text)?;
    let sanitizer: &[&str] = if sanitized() { &["-fsanitize=thread"] } else { &[] };
    run(clang(version)?
        .args(["-O1", "-g1", "-fPIC", "-fvisibility=hidden", "-S", "-emit-llvm"])
        .args(["-Xclang", "-disable-llvm-passes"])
        .args(sanitizer)
        .arg(file("clcpp"))
        .arg("-o")
        .arg(file("ll")))?;
    // What a group shares is static in this mode. Every thread that runs groups needs its own.
    let ir = std::fs::read_to_string(file("ll")).map_err(|error| error.to_string())?;
    strict::check_symbols(ir.lines().filter(|line| line.starts_with("define ")))?;
    let matrices = u8::from(strict::uses_matrices(&ir));
    let ir: String = ir.lines().map(own_group_memory).collect();
    write("ll", &ir)?;
    run(Command::new("clang-22")
        .args([
            optimization(),
            "-g1",
            "-fPIC",
            "-shared",
            "-march=x86-64-v3",
            "-Wno-override-module",
        ])
        .args(sanitizer)
        .arg(file("ll"))
        .arg("-lm")
        .arg("-o")
        .arg(file("so")))?;
    let sizes = run(Command::new("nm").arg("-S").arg(file("so")))?;
    let line = |signature: &Signature| {
        let Signature { name, buffers, max_threads, .. } = signature;
        let (bytes, [begin, end]) = strict::group_memory(&sizes, name);
        format!("{name} {buffers} {max_threads} {bytes} {matrices} {begin} {end}\n")
    };
    Ok(signatures.iter().map(line).collect())
}

/// A line of the compiler's intermediate text, with a function's static memory made the thread's own.
fn own_group_memory(line: &str) -> String {
    let own = line.starts_with("@_ZZ") && line.contains(" = internal global ");
    let line = if own {
        line.replacen(" = internal global ", " = internal thread_local global ", 1)
    } else {
        line.to_owned()
    };
    line + "\n"
}

impl Kernel {
    fn find(handle: *mut c_void, line: &str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        let [name, numbers @ ..] = &words[..] else { return None };
        let numbers: Vec<usize> = numbers.iter().map_while(|number| number.parse().ok()).collect();
        let [buffers, max_threads, shared_bytes, matrices, begin, end] = numbers[..] else {
            return None;
        };
        let launch = symbol(handle, &format!("launch_{name}")).ok()?.addr();
        let (name, shared) = ((*name).to_owned(), [begin, end]);
        let (buffers, max_threads) = (buffers as u32, max_threads as u32);
        let matrices = matrices != 0;
        Some(Self { name, buffers, max_threads, shared_bytes, matrices, shared, launch })
    }
}

impl Program {
    /// What was compiled before.
    fn load(path: &Path) -> Option<Self> {
        let lines = std::fs::read_to_string(path.with_extension("kernels")).ok()?;
        let handle = open(&path.with_extension("so"), libc::RTLD_LOCAL).ok()?;
        let kernels =
            lines.lines().map(|line| Kernel::find(handle, line)).collect::<Option<_>>()?;
        let identity = path.file_name()?.to_string_lossy().into_owned();
        Some(Self { handle: handle.addr(), identity, kernels })
    }

    /// Where this thread's group memory of all kernels of the text begins.
    fn group_memory(&self) -> usize {
        if let Ok(first_use) = symbol(self.handle as *mut c_void, "driver_first_use") {
            // SAFETY: a function of the object that takes and gives nothing.
            unsafe { std::mem::transmute::<*const c_void, extern "C" fn()>(first_use)() };
        }
        let mut data: *mut c_void = std::ptr::null_mut();
        // SAFETY: an open handle, and a place for what is asked for.
        unsafe {
            libc::dlinfo(self.handle as *mut c_void, RTLD_DI_TLS_DATA, (&raw mut data).cast());
        }
        data.addr()
    }

    /// Runs all groups of a kernel on this thread.
    ///
    /// # Safety
    ///
    /// The addresses are those of the memory that the kernel uses, and nobody frees it meanwhile.
    pub unsafe fn run(
        &self,
        kernel: usize,
        groups: [u32; 3],
        threads: u32,
        buffers: &[u64; 31],
        random: u64,
    ) -> Result<(), String> {
        let kernel = &self.kernels[kernel];
        let (launch, order) = (kernel.launch as *const c_void, (random >> 33 & 3) as i32);
        let memory = self.group_memory();
        let shared = kernel.shared.map(|at| (memory + at) as u64);
        // SAFETY: as the caller says; the program keeps the kernel loaded.
        unsafe { fibers::run_groups(launch, shared, groups, threads, buffers, order, random) }
            .map_err(|message| format!("{}: {message}", kernel.name))
    }
}

const RTLD_DI_TLS_DATA: c_int = 10;

/// Compiles a text without running it, and gives the group memory of each of its kernels.
///
/// # Errors
///
/// The compiler's words, or which of Metal's rules for texts it breaks.
pub fn check(source: &str, version: u32) -> Result<Vec<(String, usize)>, String> {
    strict::check_pragmas(source)?;
    let own = format!("check-{}-{:?}", std::process::id(), std::thread::current().id());
    let own = folder()?.join(own.replace(['(', ')'], ""));
    let file = |end: &str| -> PathBuf { own.with_extension(end) };
    std::fs::write(file("metal"), source).map_err(|error| error.to_string())?;
    let checked = (|| {
        let plain = run(clang(version)?.args(["-E", "-P"]).arg(file("metal")))?;
        let signatures = Signature::read_all(&plain)?;
        run(clang(version)?.args(["-O0", "-c", "-o"]).arg(file("o")).arg(file("metal")))?;
        let symbols = run(Command::new("nm").arg("-S").arg(file("o")))?;
        strict::check_symbols(symbols.lines())?;
        let memory = |signature: &Signature| {
            let (bytes, _) = strict::group_memory(&symbols, &signature.name);
            (signature.name.clone(), bytes)
        };
        Ok(signatures.iter().map(memory).collect())
    })();
    for end in ["metal", "o"] {
        let _ = std::fs::remove_file(file(end));
    }
    checked
}

pub fn open(path: &Path, scope: c_int) -> Result<*mut c_void, String> {
    let name =
        CString::new(path.to_string_lossy().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: a C string; the object was built from known sources.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | scope) };
    if handle.is_null() {
        // SAFETY: dlopen failed, so there is a text.
        return Err(unsafe { CStr::from_ptr(libc::dlerror()) }.to_string_lossy().into_owned());
    }
    Ok(handle)
}

pub fn symbol(handle: *mut c_void, name: &str) -> Result<*const c_void, String> {
    let text = CString::new(name).map_err(|error| error.to_string())?;
    // SAFETY: an open handle and a C string.
    let address = unsafe { libc::dlsym(handle, text.as_ptr()) };
    if address.is_null() { Err(format!("{name} is not in its object")) } else { Ok(address) }
}
