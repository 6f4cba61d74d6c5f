//! Binary archives: what was compiled, kept in a file. Here the file says for which device and system it is, and names
//! the kernels.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::library::Function;
use super::lock;
use super::pipeline;
use crate::control::{self, Refusal};
use crate::foundation::{Error, Url, alloc_default, write_error};
use crate::objc::{Raw, Sel, This, class, method, new};

const MAGIC: &str = "metal driver archive";

/// `MTLBinaryArchive`.
pub struct Archive {
    functions: Mutex<BTreeSet<String>>,
}

/// `MTLBinaryArchiveDescriptor`.
#[derive(Default)]
pub struct Descriptor {
    path: Mutex<Option<PathBuf>>,
}

class!(
    /// The class of binary archives.
    ARCHIVE, "MillstreamBinaryArchive", Archive,
    [
        method!(c"addComputePipelineFunctionsWithDescriptor:error:", c"C@:@^@", add, fn(This<Archive>, Sel, This<pipeline::Descriptor>, *mut Raw) -> bool),
        method!(c"serializeToURL:error:", c"C@:@^@", serialize, fn(This<Archive>, Sel, This<Url>, *mut Raw) -> bool),
    ]
);

class!(
    /// MTLBinaryArchiveDescriptor.
    DESCRIPTOR, "MTLBinaryArchiveDescriptor", Descriptor,
    [method!(c"setUrl:", c"v@:@", set_url, fn(This<Descriptor>, Sel, Option<This<Url>>))],
    alloc: alloc_default::<Descriptor>
);

/// What the first line of a file is on this system.
fn first_line() -> String {
    format!("{MAGIC} for {}", control::system_text())
}

fn name(function: &Function) -> String {
    format!("{} {}", function.program.identity, function.program.kernels[function.kernel].name)
}

fn open(path: &Path) -> Result<BTreeSet<String>, String> {
    let broken = |reason: &str| format!("{}: {reason}", path.display());
    let text = std::fs::read_to_string(path).map_err(|reason| broken(&reason.to_string()))?;
    let mut lines = text.lines();
    match lines.next() {
        Some(first) if first == first_line() => Ok(lines.map(str::to_owned).collect()),
        Some(first) if first.starts_with(MAGIC) => Err(broken("it is for another system")),
        _ => Err(broken("not an archive of this driver")),
    }
}

impl Archive {
    /// Whether it has a kernel.
    pub fn has(&self, function: &Function) -> bool {
        lock(&self.functions).contains(&name(function))
    }
}

/// What `newBinaryArchiveWithDescriptor` does: opens a file, or begins an empty archive.
///
/// # Safety
///
/// `error` is null or can be written.
pub unsafe fn make(descriptor: This<Descriptor>, error: *mut Raw) -> Raw {
    let opened = match &*lock(&descriptor.path) {
        _ if control::refused(Refusal::Archive) => Err("no archive can be had".to_owned()),
        Some(path) => open(path),
        None => Ok(BTreeSet::new()),
    };
    match opened {
        Ok(functions) => new(Archive { functions: Mutex::new(functions) }).into_raw(),
        Err(message) => {
            // SAFETY: as the caller says.
            unsafe { write_error(error, Error::make("MTLBinaryArchiveDomain", 1, message, None)) };
            std::ptr::null_mut()
        }
    }
}

unsafe extern "C" fn add(
    this: This<Archive>,
    _: Sel,
    descriptor: This<pipeline::Descriptor>,
    error: *mut Raw,
) -> bool {
    let refused = control::refused(Refusal::Archive);
    if let Some(function) = descriptor.function().filter(|_| !refused) {
        lock(&this.functions).insert(name(&function));
        return true;
    }
    let reason = "it cannot be compiled for an archive";
    // SAFETY: the caller passes null or a place.
    unsafe { write_error(error, Error::make("MTLBinaryArchiveDomain", 3, reason, None)) };
    false
}

unsafe extern "C" fn serialize(
    this: This<Archive>,
    _: Sel,
    url: This<Url>,
    error: *mut Raw,
) -> bool {
    let mut text = first_line();
    for function in lock(&this.functions).iter() {
        text.push('\n');
        text.push_str(function);
    }
    let written = match control::refused(Refusal::ArchiveFile) {
        true => Err(std::io::Error::other("there is no room")),
        false => std::fs::write(&url.0, text),
    };
    match written {
        Ok(()) => true,
        Err(reason) => {
            // SAFETY: the caller passes null or a place.
            unsafe {
                write_error(
                    error,
                    Error::make("MTLBinaryArchiveDomain", 2, reason.to_string(), None),
                )
            };
            false
        }
    }
}

unsafe extern "C" fn set_url(this: This<Descriptor>, _: Sel, url: Option<This<Url>>) {
    *lock(&this.path) = url.map(|url| url.0.clone());
}
