//! Binary archives: what the compiler made of the kernels of a text, kept for the next process.
//!
//! There is one archive for each text, and it is written once. Its name is a hash of the text, the GPU and the build of the system, so
//! one of another system is never found. The directory is that of all compiled kernels: it is bounded, belongs to the user alone, and
//! an entry that is not whole counts as absent. Whatever is wrong with an archive costs time and nothing else: the kernel is
//! compiled.

use std::cell::Cell;
use std::path::Path;

use millstream_kernels::cache::{Cache, CacheKey};
use objc2_foundation::{NSArray, NSProcessInfo, NSString, NSURL};
use objc2_metal::{
    MTLBinaryArchive, MTLBinaryArchiveDescriptor, MTLComputePipelineDescriptor, MTLDevice,
};

use crate::objects::{Obj, Ref, pooled};
use crate::settings;
use crate::system::Features;

/// The archives of a GPU.
#[derive(Default)]
pub(crate) struct Archives(Option<Opened>);

struct Opened {
    cache: Cache,
    /// GPU and system.
    identity: String,
}

/// The archive of one text.
pub(crate) struct Archive<'a>(Option<State<'a>>);

struct State<'a> {
    cache: &'a Cache,
    key: CacheKey,
    archive: Obj<dyn MTLBinaryArchive>,
    /// It came from the cache; else it is filled.
    found: bool,
    added: Cell<usize>,
}

impl Archives {
    /// Those of a GPU, if they are wanted and it has some.
    pub fn new(device: &Ref<dyn MTLDevice>, features: &Features) -> Self {
        let off = std::env::var_os("MILLSTREAM_CACHE_DIR").is_some_and(|value| value == "off");
        if off || !features.archives {
            return Self::default();
        }
        let opened =
            Cache::open().inspect_err(|error| settings::log(|| format!("no cache: {error}")));
        let system = NSProcessInfo::processInfo().operatingSystemVersionString();
        let identity = format!("{}, {system}", device.name());
        Self(opened.ok().map(|cache| Opened { cache, identity }))
    }

    /// The archive of a text: one that is there, or an empty one.
    pub fn of<'a>(&'a self, device: &Ref<dyn MTLDevice>, text: &str) -> Archive<'a> {
        let Some(Opened { cache, identity }) = &self.0 else { return Archive(None) };
        let key = CacheKey::of(&[b"binary archive", identity.as_bytes(), text.as_bytes()]);
        pooled(|| {
            let known = cache.get(key).and_then(|bytes| load(device, cache, &bytes));
            let found = known.is_some();
            let archive = known.or_else(|| open(device, None));
            let state = |archive| State { cache, key, archive, found, added: Cell::new(0) };
            Archive(archive.map(state))
        })
    }
}

/// An archive of a file, or an empty one.
fn open(device: &Ref<dyn MTLDevice>, path: Option<&Path>) -> Option<Obj<dyn MTLBinaryArchive>> {
    let descriptor = MTLBinaryArchiveDescriptor::new();
    descriptor.setUrl(path.map(url).as_deref());
    let made = device.newBinaryArchiveWithDescriptor_error(&descriptor);
    let refused = |error: &_| settings::log(|| format!("no binary archive: {error}"));
    made.inspect_err(|error| refused(&error.localizedDescription())).ok()
}

fn url(path: &Path) -> objc2::rc::Retained<NSURL> {
    NSURL::fileURLWithPath(&NSString::from_str(&path.to_string_lossy()))
}

/// An archive of these bytes, which Metal wants in a file.
fn load(
    device: &Ref<dyn MTLDevice>,
    cache: &Cache,
    bytes: &[u8],
) -> Option<Obj<dyn MTLBinaryArchive>> {
    let file = cache.scratch_file();
    let archive = std::fs::write(&file, bytes).ok().and_then(|()| open(device, Some(&file)));
    let _ = std::fs::remove_file(&file);
    archive
}

impl Archive<'_> {
    /// Lets a pipeline be taken from it.
    pub fn offer(&self, descriptor: &MTLComputePipelineDescriptor) {
        if let Some(State { archive, found: true, .. }) = &self.0 {
            descriptor.setBinaryArchives(Some(&NSArray::from_slice(&[&**archive])));
        }
    }

    /// Adds a pipeline that was made, if the archive is new.
    pub fn add(&self, descriptor: &MTLComputePipelineDescriptor) {
        if let Some(State { archive, found: false, added, .. }) = &self.0 {
            match archive.addComputePipelineFunctionsWithDescriptor_error(descriptor) {
                Ok(()) => added.set(added.get() + 1),
                Err(error) => {
                    settings::log(|| format!("not in an archive: {}", error.localizedDescription()))
                }
            }
        }
    }

    /// Stores it, if it is new and has something in it.
    pub fn keep(self) {
        let Some(State { cache, key, archive, found: false, added }) = self.0 else { return };
        if added.get() == 0 {
            return;
        }
        let file = cache.scratch_file();
        let stored = pooled(|| {
            archive
                .serializeToURL_error(&url(&file))
                .map_err(|error| error.localizedDescription().to_string())
        })
        .and_then(|()| std::fs::read(&file).map_err(|error| error.to_string()))
        .and_then(|bytes| cache.put(key, &bytes).map_err(|error| error.to_string()));
        let _ = std::fs::remove_file(&file);
        if let Err(error) = stored {
            settings::log(|| format!("an archive was not stored: {error}"));
        }
    }
}
