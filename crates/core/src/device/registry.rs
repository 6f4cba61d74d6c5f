//! The devices that exist, and those that were opened by name.

use std::collections::HashMap;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{Config, Device};
use crate::{BackendEntry, BackendInfo, Error, Result};

type Opened = Mutex<HashMap<String, Device>>;

/// Devices opened by name. It is a pointer so that a forked child can start with a new map: the lock of the old one
/// may be held forever.
static OPENED: AtomicPtr<Opened> = AtomicPtr::new(ptr::null_mut());

/// The orderings with which a pointer in a static is published and read; they pair with each other. Loom cannot see
/// into statics, so its model below uses the same orderings.
pub(super) const PUBLISH: Ordering = Ordering::AcqRel;
pub(super) const READ: Ordering = Ordering::Acquire;

/// Called in a forked child.
pub(super) fn forget() {
    OPENED.store(ptr::null_mut(), Ordering::Relaxed);
}

fn opened() -> &'static Opened {
    let mut map = OPENED.load(READ);
    if map.is_null() {
        let new = Box::into_raw(Box::<Opened>::default());
        match OPENED.compare_exchange(ptr::null_mut(), new, PUBLISH, READ) {
            Ok(_) => map = new,
            Err(current) => {
                // SAFETY: made here a moment ago and never shared.
                drop(unsafe { Box::from_raw(new) });
                map = current;
            }
        }
    }
    // SAFETY: comes from `Box::into_raw` and is never freed.
    unsafe { &*map }
}

/// `"cuda:1"` is device 1 of backend `"cuda"`, `"cpu"` is device 0 of backend `"cpu"`.
fn split(name: &str) -> Option<(&str, usize)> {
    match name.split_once(':') {
        None => Some((name, 0)),
        Some((backend, index)) => Some((backend, index.parse().ok()?)),
    }
}

fn entries() -> Vec<&'static BackendEntry> {
    let mut entries: Vec<_> = inventory::iter::<BackendEntry>.into_iter().collect();
    entries.sort_by_key(|entry| (std::cmp::Reverse(entry.preference), entry.name));
    entries
}

fn find(name: &str) -> Result<(&'static BackendEntry, usize)> {
    let entries = entries();
    let unknown = || Error::UnknownDevice {
        name: name.to_owned(),
        known: match entries.len() {
            0 => "none (link a backend crate, or use the `millstream` crate)".into(),
            _ => entries.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", "),
        },
    };
    let (backend, index) = split(name).ok_or_else(unknown)?;
    let entry = entries.iter().find(|entry| entry.name == backend).ok_or_else(unknown)?;
    Ok((entry, index))
}

/// Opens a device with its own settings; always a new one.
pub(super) fn open_new(name: &str, config: Config) -> Result<Device> {
    let (entry, index) = find(name)?;
    config.check()?;
    if let Some(path) = &config.trace {
        crate::profiler::file::begin(path)?;
    }
    super::fork::watch();
    let backend = (entry.open)(index, &config)?;
    Device::with_backend(backend, config)
}

/// Opens a device with the settings of the environment; always the same one.
pub(super) fn open_shared(name: &str) -> Result<Device> {
    let (entry, index) = find(name)?;
    let key = format!("{}:{index}", entry.name);
    let mut opened = opened().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(device) = opened.get(&key).filter(|device| !device.inner().is_closed()) {
        return Ok(*device);
    }
    let device = open_new(name, Config::from_env()?)?;
    opened.insert(key, device);
    Ok(device)
}

/// Opens the device that the environment names, or the most capable one that can be opened.
pub(super) fn open_best() -> Result<Device> {
    if let Some(name) = std::env::var_os("MILLSTREAM_DEVICE") {
        return open_shared(&name.to_string_lossy());
    }
    let mut last = None;
    for entry in entries() {
        match open_shared(entry.name) {
            Ok(device) => return Ok(device),
            // A setting that does not parse is for the user to correct, and no reason to take another device.
            Err(error @ Error::InvalidConfig { .. }) => return Err(error),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| Error::UnknownDevice { name: "best".into(), known: "none".into() }))
}

/// Every backend that is linked in, with its devices or the reason why there are none.
pub(super) fn list() -> Vec<(&'static str, Result<Vec<BackendInfo>>)> {
    entries().into_iter().map(|entry| (entry.name, (entry.list)())).collect()
}

#[cfg(all(test, loom))]
mod loom_tests;
