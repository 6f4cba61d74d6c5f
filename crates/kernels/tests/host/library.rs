//! Compiled kernels in this process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::{Arc, Mutex};

use millstream_kernels::{Dialect, Key, Program, source_of_many};

use crate::toolchain::Toolchain;

/// Kernels per shared object: enough to share the cost of the prelude, few enough to share the work.
const BATCH: usize = 40;

/// The address of a kernel. Its group memory is static, so that one thread at a time may run it.
pub type Entry = Arc<Mutex<usize>>;

type Dispatch = unsafe extern "C" fn(
    *const c_void,
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
    entries: Mutex<HashMap<Key, Entry>>,
}

impl Library {
    pub fn new(toolchain: Toolchain) -> Result<Self, String> {
        let runtime = open(&toolchain.runtime()?, libc::RTLD_GLOBAL)?;
        let dispatch = symbol(runtime, "host_dispatch")?;
        // SAFETY: the runtime defines the function with exactly these parameters.
        let dispatch = unsafe { std::mem::transmute::<*const c_void, Dispatch>(dispatch) };
        Ok(Self { toolchain, dispatch, entries: Mutex::default() })
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
        for key in keys {
            let entry = symbol(handle, &format!("launch_{}", key.entry()))?;
            self.entries.lock().unwrap().insert(*key, Arc::new(Mutex::new(entry as usize)));
        }
        Ok(())
    }

    fn entry(&self, key: &Key) -> Result<Entry, String> {
        let known = |library: &Self| library.entries.lock().unwrap().get(key).cloned();
        if let Some(entry) = known(self) {
            return Ok(entry);
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
        let entry = self.entry(key)?;
        let kernel = entry.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: the caller vouches for the memory; the function and the kernel stay loaded.
        let message = unsafe {
            (self.dispatch)(
                *kernel as *const c_void,
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
        let message = unsafe { CStr::from_ptr(message) }.to_string_lossy();
        Err(format!("{}: {message}", key.entry()))
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
