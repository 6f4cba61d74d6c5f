//! Binary archives: what was compiled, kept in a file. Here the file says only that it is one.

use std::path::PathBuf;
use std::sync::Mutex;

use super::lock;
use super::pipeline;
use crate::foundation::{Error, Url, alloc_default, write_error};
use crate::objc::{Raw, Sel, This, class, method, new};

const MAGIC: &[u8] = b"metal driver archive\n";

/// `MTLBinaryArchive`.
pub struct Archive {
    functions: Mutex<usize>,
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

/// What `newBinaryArchiveWithDescriptor` does: opens a file, or begins an empty archive.
///
/// # Safety
///
/// `error` is null or can be written.
pub unsafe fn make(descriptor: This<Descriptor>, error: *mut Raw) -> Raw {
    let broken = lock(&descriptor.path).as_ref().and_then(|path| match std::fs::read(path) {
        Ok(bytes) if bytes.starts_with(MAGIC) => None,
        Ok(_) => Some(format!("{}: not an archive of this driver", path.display())),
        Err(reason) => Some(format!("{}: {reason}", path.display())),
    });
    match broken {
        None => new(Archive { functions: Mutex::new(0) }).into_raw(),
        Some(message) => {
            // SAFETY: as the caller says.
            unsafe { write_error(error, Error::make("MTLBinaryArchiveDomain", 1, message, None)) };
            std::ptr::null_mut()
        }
    }
}

unsafe extern "C" fn add(
    this: This<Archive>,
    _: Sel,
    _: This<pipeline::Descriptor>,
    _: *mut Raw,
) -> bool {
    *lock(&this.functions) += 1;
    true
}

unsafe extern "C" fn serialize(
    this: This<Archive>,
    _: Sel,
    url: This<Url>,
    error: *mut Raw,
) -> bool {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(lock(&this.functions).to_string().bytes());
    match std::fs::write(&url.0, bytes) {
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
