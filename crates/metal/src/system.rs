//! What the system says about itself and its GPU.

use objc2::msg_send;
use objc2::rc::Retained;
use objc2_foundation::{NSProcessInfo, NSString};
use objc2_metal::{MTLArchitecture, MTLDevice, MTLGPUFamily};

use crate::objects::Ref;

/// The oldest macOS that this device runs on.
const OLDEST: Version = Version { major: 13, minor: 0 };

/// A version of macOS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub major: isize,
    pub minor: isize,
}

impl Version {
    /// That of this system.
    pub fn current() -> Self {
        let version = NSProcessInfo::processInfo().operatingSystemVersion();
        Self { major: version.majorVersion, minor: version.minorVersion }
    }

    pub fn is_at_least(self, major: isize) -> bool {
        self.major >= major
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// What a GPU can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Features {
    pub version: Version,
    /// The newest of Apple's families that it belongs to, as in 9.
    pub family: u8,
    /// Residency sets.
    pub residency: bool,
    /// Simdgroup matrices, which every Mac with Apple silicon has, and hosted machines do not.
    pub matrices: bool,
    /// Binary archives.
    pub archives: bool,
    /// Indirect command buffers of dispatches.
    pub indirect: bool,
}

impl Features {
    /// Those of a device; or what is missing, and what would do.
    pub fn of(device: &Ref<dyn MTLDevice>) -> Result<Self, String> {
        let version = Version::current();
        if version < OLDEST {
            return Err(format!("macOS {version} is too old: it needs macOS {OLDEST} or later"));
        }
        let supports = |family: u8| device.supportsFamily(MTLGPUFamily(1000 + isize::from(family)));
        // Hosted machines have a device of family 5.
        let Some(family) = (5..=15).rev().find(|&family| supports(family)) else {
            return Err(format!(
                "{} is no GPU of Apple's: it needs a Mac with Apple silicon",
                device.name()
            ));
        };
        if !device.hasUnifiedMemory() {
            return Err(format!("{} has memory of its own: it needs Apple silicon", device.name()));
        }
        let residency = family >= 6 && version.is_at_least(15);
        let newer = family >= 7;
        Ok(Self { version, family, residency, matrices: newer, archives: newer, indirect: newer })
    }
}

/// What a system or GPU needs to be treated differently for. There is no such case yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quirks {
    /// One thread at a time encodes, whatever its stream.
    pub serial_encoding: bool,
}

/// GPU families and versions of macOS, from and up to and including, with what is different there.
const QUIRKS: &[(std::ops::RangeInclusive<u8>, Version, Version, Quirks)] = &[];

impl Quirks {
    /// Those of a system, or of a table of a test.
    pub fn of(features: &Features) -> Self {
        Self::from_table(features, QUIRKS)
    }

    fn from_table(
        features: &Features,
        table: &[(std::ops::RangeInclusive<u8>, Version, Version, Quirks)],
    ) -> Self {
        let (family, version) = (features.family, features.version);
        let applies = |(families, from, to, _): &&(
            std::ops::RangeInclusive<u8>,
            Version,
            Version,
            Quirks,
        )| { families.contains(&family) && (*from..=*to).contains(&version) };
        table.iter().filter(applies).fold(Self::default(), |all, (.., quirks)| Self {
            serial_encoding: all.serial_encoding || quirks.serial_encoding,
        })
    }
}

/// How many cores the GPU has: as the I/O registry says, else as many as an architecture of that name has at least.
pub(crate) fn gpu_cores(device: &Ref<dyn MTLDevice>, version: Version) -> u32 {
    registry::gpu_cores().unwrap_or_else(|| {
        let name = version.is_at_least(14).then(|| architecture(device)).flatten();
        cores_of_architecture(name.as_deref().unwrap_or(""))
    })
}

/// The name of the architecture, if the device has one. The binding ends the thread where a device that is none of Apple's own GPUs, as
/// in a virtual machine, answers nil, so it is asked without.
fn architecture(device: &Ref<dyn MTLDevice>) -> Option<String> {
    // SAFETY: a property of devices since macOS 14, of this type; and one of what it gives.
    let name: Option<Retained<NSString>> = unsafe {
        let architecture: Option<Retained<MTLArchitecture>> = msg_send![device, architecture];
        architecture.and_then(|architecture| msg_send![&architecture, name])
    };
    name.map(|name| name.to_string())
}

/// Names are as in `applegpu_g16s`: a generation, and a letter for the size.
fn cores_of_architecture(name: &str) -> u32 {
    match name.chars().last() {
        // Ultra, Max, Pro.
        Some('d') => 48,
        Some('c') => 24,
        Some('s') => 14,
        _ => 7,
    }
}

/// The I/O registry, by its C interface.
mod registry {
    use std::ffi::{c_char, c_void};

    type Object = u32;
    type Type = *const c_void;

    #[cfg_attr(target_vendor = "apple", link(name = "IOKit", kind = "framework"))]
    unsafe extern "C" {
        fn IOServiceMatching(name: *const c_char) -> *mut c_void;
        fn IOServiceGetMatchingService(port: u32, matching: *mut c_void) -> Object;
        fn IORegistryEntryCreateCFProperty(
            entry: Object,
            key: Type,
            allocator: *const c_void,
            options: u32,
        ) -> Type;
        fn IOObjectRelease(object: Object) -> i32;
    }

    #[cfg_attr(target_vendor = "apple", link(name = "CoreFoundation", kind = "framework"))]
    unsafe extern "C" {
        fn CFStringCreateWithCString(
            allocator: *const c_void,
            text: *const c_char,
            encoding: u32,
        ) -> Type;
        fn CFGetTypeID(object: Type) -> usize;
        fn CFNumberGetTypeID() -> usize;
        fn CFNumberGetValue(number: Type, kind: isize, value: *mut c_void) -> u8;
        fn CFRelease(object: Type);
    }

    // Metal's default device of a program without windows needs it.
    #[cfg_attr(target_os = "macos", link(name = "CoreGraphics", kind = "framework"))]
    unsafe extern "C" {}

    const UTF8: u32 = 0x0800_0100;
    const SINT64: isize = 4;

    /// The number of GPU cores, if the registry has it.
    pub fn gpu_cores() -> Option<u32> {
        // SAFETY: calls of the C interface as it is documented: what was created is released, matching is consumed, and a
        // property is only read as what it says it is.
        unsafe {
            let service =
                IOServiceGetMatchingService(0, IOServiceMatching(c"AGXAccelerator".as_ptr()));
            if service == 0 {
                return None;
            }
            let key = CFStringCreateWithCString(std::ptr::null(), c"gpu-core-count".as_ptr(), UTF8);
            let property = IORegistryEntryCreateCFProperty(service, key, std::ptr::null(), 0);
            CFRelease(key);
            IOObjectRelease(service);
            if property.is_null() {
                return None;
            }
            let mut cores = 0i64;
            let is_number = CFGetTypeID(property) == CFNumberGetTypeID();
            let read =
                is_number && CFNumberGetValue(property, SINT64, (&raw mut cores).cast()) != 0;
            CFRelease(property);
            (read && cores > 0).then(|| u32::try_from(cores).ok()).flatten()
        }
    }
}

#[cfg(test)]
mod tests;
