//! Compiled kernels in this process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::{Arc, Mutex};

use millstream_kernels::{Dialect, Key, Program, source_of_many};

use crate::toolchain::Toolchain;

/// Kernels per shared object: enough to share the cost of the prelude, few enough to share the work.
const BATCH: usize = 40;

/// A kernel.
#[derive(Clone)]
struct Kernel {
    /// Group memory is static, and spoiled before each run, so that one thread at a time may run any kernel
    /// of an object.
    turn: Arc<Mutex<()>>,
    /// The address.
    function: usize,
    /// Where the memory that groups share begins and ends, of this and the kernels compiled with it.
    shared: [u64; 2],
}

impl Kernel {
    fn find(handle: *mut c_void, entry: &str, turn: &Arc<Mutex<()>>) -> Result<Self, String> {
        let function = symbol(handle, &format!("launch_{entry}"))? as usize;
        let range = symbol(handle, "host_shared")?;
        // SAFETY: the prelude of the host dialect defines this function.
        let range = unsafe { std::mem::transmute::<*const c_void, extern "C" fn(*mut u64)>(range) };
        let mut shared = [0; 2];
        range(shared.as_mut_ptr());
        Ok(Self { turn: Arc::clone(turn), function, shared })
    }
}

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

pub struct Library {
    toolchain: Toolchain,
    dispatch: Dispatch,
    kernels: Mutex<HashMap<Key, Kernel>>,
}

impl Library {
    pub fn new(toolchain: Toolchain) -> Result<Self, String> {
        let runtime = open(&toolchain.runtime()?, libc::RTLD_GLOBAL)?;
        let dispatch = symbol(runtime, "host_dispatch")?;
        // SAFETY: the runtime defines the function with exactly these parameters.
        let dispatch = unsafe { std::mem::transmute::<*const c_void, Dispatch>(dispatch) };
        Ok(Self { toolchain, dispatch, kernels: Mutex::default() })
    }

    pub fn toolchain(&self) -> &Toolchain {
        &self.toolchain
    }

    /// Compiles and loads kernels, many at a time, on two threads.
    pub fn prepare(&self, keys: &BTreeSet<Key>) -> Result<(), String> {
        let mut programs = BTreeMap::<Program, Vec<Key>>::new();
        for key in keys {
            programs.entry(key.program()).or_default().push(*key);
        }
        let batches: Vec<&[Key]> = programs.values().flat_map(|keys| keys.chunks(BATCH)).collect();
        let next = std::sync::atomic::AtomicUsize::new(0);
        let work = || -> Result<(), String> {
            while let Some(batch) =
                batches.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
            {
                self.load(batch)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let helper = scope.spawn(work);
            let own = work();
            own.and(helper.join().map_err(|_| "the compiling thread panicked".to_string())?)
        })
    }

    fn load(&self, keys: &[Key]) -> Result<(), String> {
        let path = self.toolchain.kernels(&source_of_many(keys, Dialect::Host))?;
        let handle = open(&path, libc::RTLD_LOCAL)?;
        let turn = Arc::default();
        for key in keys {
            let kernel = Kernel::find(handle, &key.entry(), &turn)?;
            self.kernels.lock().unwrap().insert(*key, kernel);
        }
        Ok(())
    }

    fn kernel(&self, key: &Key) -> Result<Kernel, String> {
        let known = |library: &Self| library.kernels.lock().unwrap().get(key).cloned();
        if let Some(kernel) = known(self) {
            return Ok(kernel);
        }
        self.load(&[*key])?;
        Ok(known(self).expect("just loaded"))
    }

    /// Runs a kernel over all its groups.
    ///
    /// # Safety
    ///
    /// The buffers and params are those that the kernel was lowered for.
    pub unsafe fn run(
        &self,
        key: &Key,
        groups: [u32; 3],
        threads: u32,
        buffers: &[u64],
        params: &[u8],
        order: i32,
    ) -> Result<(), String> {
        let kernel = self.kernel(key)?;
        // SAFETY: the caller vouches for the memory; the kernel stays loaded.
        unsafe { self.dispatch(&kernel, groups, threads, buffers, params, order) }
            .map_err(|message| format!("{}: {message}", key.entry()))
    }

    /// Compiles a text of its own and runs its kernel `planted`, which takes no params worth a name.
    ///
    /// # Safety
    ///
    /// The buffers are those that the kernel takes.
    pub unsafe fn run_text(
        &self,
        text: &str,
        threads: u32,
        buffers: &[u64],
        order: i32,
    ) -> Result<(), String> {
        let handle = open(&self.toolchain.kernels(text)?, libc::RTLD_LOCAL)?;
        let kernel = Kernel::find(handle, "planted", &Arc::default())?;
        // SAFETY: the caller vouches for the buffers; params of 8 bytes are all that such a text has.
        unsafe { self.dispatch(&kernel, [1, 1, 1], threads, buffers, &[0; 8], order) }
    }

    /// # Safety
    ///
    /// `kernel` is still loaded, with the buffers and params that it takes.
    unsafe fn dispatch(
        &self,
        kernel: &Kernel,
        groups: [u32; 3],
        threads: u32,
        buffers: &[u64],
        params: &[u8],
        order: i32,
    ) -> Result<(), String> {
        let _turn = kernel.turn.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: the caller vouches for the kernel and its memory.
        let message = unsafe {
            (self.dispatch)(
                kernel.function as *const c_void,
                kernel.shared.as_ptr(),
                groups.as_ptr(),
                threads,
                buffers.as_ptr(),
                buffers.len() as u32,
                params.as_ptr().cast(),
                order,
                7,
            )
        };
        if message.is_null() {
            return Ok(());
        }
        // SAFETY: the runtime gives static texts.
        Err(unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned())
    }
}

fn open(path: &Path, scope: c_int) -> Result<*mut c_void, String> {
    let name =
        CString::new(path.to_string_lossy().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: a valid C string; the object was built from our own sources and has no constructors.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | scope) };
    if handle.is_null() {
        // SAFETY: dlopen failed, so dlerror gives a text.
        let reason = unsafe { CStr::from_ptr(libc::dlerror()) };
        return Err(format!("{}: {}", path.display(), reason.to_string_lossy()));
    }
    Ok(handle)
}

fn symbol(handle: *mut c_void, name: &str) -> Result<*const c_void, String> {
    let text = CString::new(name).map_err(|error| error.to_string())?;
    // SAFETY: a handle from dlopen and a valid C string.
    let address = unsafe { libc::dlsym(handle, text.as_ptr()) };
    if address.is_null() { Err(format!("{name} is not in its object")) } else { Ok(address) }
}
