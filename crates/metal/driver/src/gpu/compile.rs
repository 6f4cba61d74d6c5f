//! The compiler: clang's C++ for OpenCL with a library of Metal's functions.

use std::ffi::{CStr, CString, c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::fibers;
use super::signature::Signature;

/// A compiled text.
pub struct Program {
    handle: usize,
    pub kernels: Vec<Kernel>,
}

/// A kernel of a text.
pub struct Kernel {
    pub name: String,
    pub buffers: u32,
    pub max_threads: u32,
    /// Bytes of group memory.
    pub shared_bytes: usize,
    launch: usize,
}

const FLAGS: &[&str] = &[
    "-x",
    "clcpp",
    "-cl-std=clc++2021",
    "-cl-no-stdinc",
    "-cl-single-precision-constant",
    "-target",
    "x86_64-unknown-linux-gnu",
    "-Xclang",
    "-cl-ext=+all",
    "-march=x86-64-v3",
    "-ffp-contract=off",
    "-fwrapv",
    "-Wno-unknown-attributes",
    "-Wno-pass-failed",
];

/// As the fibers pass it; the runtime has the same.
const CALL: &str = "struct HostThread { uint group, group_y, group_z, groups, groups_y, groups_z, index, count, lane, simd; };\n\
    struct HostCall { HostThread at; ulong buffers[31]; ulong params; };\n";

/// Group memory is allocated for a thread when it is first used: this uses it.
const TOUCH: &str = "kernel void driver_touch(ulong x) { __local ulong own; own = x; }\n\
    extern \"C\" __attribute__((visibility(\"default\"))) void driver_first_use(void) { driver_touch(1); }\n";

/// Compiles a text, or gives the compiler's words.
pub fn compile(source: &str) -> Result<Program, String> {
    std::thread::sleep(crate::control::compile_delay());
    fibers::load()?;
    let mut hasher = DefaultHasher::new();
    (source, sanitized(), include_str!("../../include/metal_stdlib")).hash(&mut hasher);
    let own = format!(
        "{:016x}-{}-{:?}",
        hasher.finish(),
        std::process::id(),
        std::thread::current().id()
    );
    let own = own.replace(['(', ')'], "");
    let folder = folder()?;
    let file = |end: &str| folder.join(format!("{own}.{end}"));
    std::fs::write(file("metal"), source).map_err(|error| error.to_string())?;
    let result = build(&file, &folder);
    for end in ["metal", "clcpp", "ll", "so"] {
        let _ = std::fs::remove_file(file(end));
    }
    result
}

fn build(file: &dyn Fn(&str) -> PathBuf, folder: &Path) -> Result<Program, String> {
    let include = folder.join("include");
    let clang = || {
        let mut clang = Command::new("clang-22");
        clang.args(FLAGS).arg("-I").arg(&include);
        clang
    };
    let plain = run(clang().args(["-E", "-P"]).arg(file("metal")))?;
    let signatures = Signature::read_all(&plain)?;
    let mut text = format!("#include \"{}\"\n{CALL}{TOUCH}", file("metal").display());
    text.extend(signatures.iter().map(Signature::launcher));
    std::fs::write(file("clcpp"), text).map_err(|error| error.to_string())?;
    let sanitizer: &[&str] = if sanitized() { &["-fsanitize=thread"] } else { &[] };
    run(clang()
        .args([
            "-O1",
            "-g1",
            "-fPIC",
            "-fvisibility=hidden",
            "-S",
            "-emit-llvm",
            "-Xclang",
            "-disable-llvm-passes",
        ])
        .args(sanitizer)
        .arg(file("clcpp"))
        .arg("-o")
        .arg(file("ll")))?;
    // What a group shares is static in this mode. Every thread that runs groups needs its own.
    let ir = std::fs::read_to_string(file("ll")).map_err(|error| error.to_string())?;
    let ir: String = ir.lines().map(own_group_memory).collect();
    std::fs::write(file("ll"), ir).map_err(|error| error.to_string())?;
    let optimize = if sanitized() { "-O1" } else { "-O0" };
    run(Command::new("clang-22")
        .args([optimize, "-g1", "-fPIC", "-shared", "-march=x86-64-v3", "-Wno-override-module"])
        .args(sanitizer)
        .arg(file("ll"))
        .arg("-lm")
        .arg("-o")
        .arg(file("so")))?;
    let sizes = run(Command::new("nm").arg("-S").arg(file("so")))?;
    let handle = open(&file("so"), libc::RTLD_LOCAL)?;
    let kernels = signatures.iter().map(|signature| {
        let launch = symbol(handle, &format!("launch_{}", signature.name))?.addr();
        let shared_bytes = group_memory(&sizes, &signature.name);
        Ok(Kernel {
            name: signature.name.clone(),
            buffers: signature.buffers,
            max_threads: signature.max_threads,
            shared_bytes,
            launch,
        })
    });
    Ok(Program { kernels: kernels.collect::<Result<_, String>>()?, handle: handle.addr() })
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

/// The bytes of a kernel's static variables, by their mangled names.
fn group_memory(sizes: &str, kernel: &str) -> usize {
    let prefix = format!("_ZZ{}{kernel}", kernel.len());
    let sizes = sizes.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [_, size, _, name] = words[..] else { return None };
        name.starts_with(&prefix).then(|| usize::from_str_radix(size, 16).ok()).flatten()
    });
    sizes.sum()
}

impl Program {
    /// This thread's group memory of all kernels of the text: begin and end.
    fn group_range(&self) -> [u64; 2] {
        if let Ok(first_use) = symbol(self.handle as *mut c_void, "driver_first_use") {
            // SAFETY: a function of the object that takes and gives nothing.
            unsafe { std::mem::transmute::<*const c_void, extern "C" fn()>(first_use)() };
        }
        let mut data: *mut c_void = std::ptr::null_mut();
        let mut module = 0usize;
        // SAFETY: an open handle, and places for what is asked for.
        unsafe {
            libc::dlinfo(self.handle as *mut c_void, RTLD_DI_TLS_DATA, (&raw mut data).cast());
            libc::dlinfo(self.handle as *mut c_void, RTLD_DI_TLS_MODID, (&raw mut module).cast());
        }
        let begin = data.addr() as u64;
        if begin == 0 { [0, 0] } else { [begin, begin + tls_bytes(module) as u64] }
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
        // SAFETY: as the caller says; the program keeps the kernel loaded.
        unsafe {
            fibers::run_groups(launch, self.group_range(), groups, threads, buffers, order, random)
        }
        .map_err(|message| format!("{}: {message}", kernel.name))
    }
}

const RTLD_DI_TLS_MODID: c_int = 9;
const RTLD_DI_TLS_DATA: c_int = 10;

/// The size of a module's thread-local memory.
fn tls_bytes(module: usize) -> usize {
    struct Search {
        module: usize,
        bytes: usize,
    }
    unsafe extern "C" fn match_module(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a valid description, and `data` is the search below.
        unsafe {
            let (info, search) = (&*info, &mut *data.cast::<Search>());
            if info.dlpi_tls_modid == search.module {
                let headers =
                    std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
                search.bytes = headers
                    .iter()
                    .find(|header| header.p_type == libc::PT_TLS)
                    .map_or(0, |header| header.p_memsz as usize);
            }
        }
        0
    }
    let mut search = Search { module, bytes: 0 };
    // SAFETY: the function above, and what it writes to.
    unsafe { libc::dl_iterate_phdr(Some(match_module), (&raw mut search).cast()) };
    search.bytes
}

/// Whether kernels are watched by ThreadSanitizer.
pub fn sanitized() -> bool {
    std::env::var("METAL_DRIVER_SANITIZER").as_deref() == Ok("thread")
}

/// Where texts are compiled: one folder for all processes of a user, with the library's header. Files in it have names
/// of their own, and go when they are compiled.
pub fn folder() -> Result<PathBuf, String> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = FOLDER.get_or_init(|| {
        // SAFETY: asks for a number.
        let user = unsafe { libc::getuid() };
        let folder = std::env::temp_dir().join(format!("millstream-metal-driver-{user}"));
        let include = folder.join("include");
        let write = || {
            std::fs::create_dir_all(&include)?;
            // Another process may be reading it: it is replaced whole.
            let unfinished = include.join(format!("metal_stdlib.{}", std::process::id()));
            std::fs::write(&unfinished, include_str!("../../include/metal_stdlib"))?;
            std::fs::rename(unfinished, include.join("metal_stdlib"))
        };
        write().map_err(|error| format!("{}: {error}", folder.display())).map(|()| folder)
    });
    made.clone()
}

/// What a command prints, or what it says when it fails.
pub fn run(command: &mut Command) -> Result<String, String> {
    // A sanitizer that is loaded into this process is not meant for the compiler.
    let output = command
        .env_remove("LD_PRELOAD")
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

pub fn open(path: &Path, scope: c_int) -> Result<*mut c_void, String> {
    let name =
        CString::new(path.to_string_lossy().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: a C string; the object was just built from known sources.
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
