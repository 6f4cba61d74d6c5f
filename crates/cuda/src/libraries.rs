//! NVIDIA's libraries: whether they are there, and where they hide.
//!
//! The binding panics when a library or a function is missing, so presence is tested here before the
//! first call into each. NVRTC and cuBLASLt often lie in folders that the loader does not search (of the
//! toolkit, or of a Python package); they are opened from there first, after which the loader knows them
//! by name.

#[cfg(unix)]
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cudarc::{cublaslt, driver, nvrtc};
use millstream_core::{Error, Result};

/// A reason why the CUDA device cannot be opened. For opening only: who works with a device has it open.
pub(crate) fn unavailable(reason: impl Into<String>) -> Error {
    Error::Unavailable { name: "cuda".into(), reason: reason.into() }
}

/// Whether all libraries are there.
///
/// # Errors
///
/// What is missing, and how to get it.
pub(crate) fn check() -> Result<()> {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    match MISSING.get_or_init(missing) {
        None => Ok(()),
        Some(reason) => Err(unavailable(reason.clone())),
    }
}

/// Whether NVRTC is there to compile a kernel, which needs no driver and opens no device.
///
/// # Errors
///
/// How to get it.
pub(crate) fn check_compiler(key: &str) -> Result<()> {
    match absent(&[NVRTC]) {
        None => Ok(()),
        Some(reason) => Err(Error::Compile { key: key.to_owned(), message: reason.into() }),
    }
}

/// A library that may lie where the loader does not look.
struct Library {
    name: &'static str,
    is_present: fn() -> bool,
}

const NVRTC: Library = Library {
    name: "libnvrtc.so.13",
    // SAFETY: opens and closes the library, whose initialisers are NVIDIA's own.
    is_present: || unsafe { nvrtc::sys::is_culib_present() },
};

const BLAS: Library = Library {
    name: "libcublasLt.so.13",
    // SAFETY: as above.
    is_present: || unsafe { cublaslt::sys::is_culib_present() },
};

fn missing() -> Option<String> {
    // SAFETY: opens and closes the library, whose initialisers are NVIDIA's own.
    if !unsafe { driver::sys::is_culib_present() } {
        return Some(
            "the NVIDIA driver (libcuda.so.1) is not installed: install a driver of version 580 or \
             later, and in a container start it with the NVIDIA runtime (docker run --gpus all)"
                .into(),
        );
    }
    absent(&[NVRTC, BLAS])
}

/// What is missing of some libraries, and how to get it.
fn absent(libraries: &[Library]) -> Option<String> {
    let absent: Vec<_> = libraries
        .iter()
        .filter(|library| {
            !(library.is_present)() && {
                preload(library.name);
                !(library.is_present)()
            }
        })
        .map(|library| library.name)
        .collect();
    (!absent.is_empty()).then(|| {
        format!(
            "{} cannot be loaded: install the CUDA 13 toolkit or `pip install nvidia-cuda-nvrtc \
             nvidia-cublas`, and name the folder that holds it in MILLSTREAM_CUDA_LIBRARIES or \
             LD_LIBRARY_PATH",
            absent.join(" and ")
        )
    })
}

/// Folders in which toolkits and Python packages put their libraries.
fn folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(list) = std::env::var_os("MILLSTREAM_CUDA_LIBRARIES") {
        folders.extend(std::env::split_paths(&list));
    }
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        folders.extend(std::env::var_os(variable).map(|home| PathBuf::from(home).join("lib64")));
    }
    for home in ["/usr/local/cuda", "/usr/local/cuda-13", "/opt/cuda"] {
        folders.push(PathBuf::from(home).join("lib64"));
    }
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(std::env::var_os);
    let pythons = environments.map(PathBuf::from).chain(["/usr/local".into(), "/usr".into()]);
    for python in pythons.map(|root: PathBuf| root.join("lib")) {
        let versions = std::fs::read_dir(python).into_iter().flatten().flatten();
        for version in
            versions.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"python"))
        {
            for packages in ["site-packages", "dist-packages"] {
                folders.push(version.path().join(packages).join("nvidia/cu13/lib"));
            }
        }
    }
    folders
}

/// Opens a library from one of the folders for the rest of the process. NVRTC opens a second file by name
/// when it compiles, so that is opened first.
fn preload(name: &str) {
    for folder in folders().into_iter().filter(|folder| folder.join(name).exists()) {
        let beside = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in beside.filter(|entry| {
            entry.file_name().as_encoded_bytes().starts_with(b"libnvrtc-builtins.so")
        }) {
            open(&entry.path());
        }
        if open(&folder.join(name)) {
            return;
        }
    }
}

#[cfg(unix)]
fn open(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_encoded_bytes()) else { return false };
    // SAFETY: a path that ends in a zero; the library's initialisers are NVIDIA's own. The handle is kept
    // for good, so nothing ever runs that was unloaded.
    !unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) }.is_null()
}

#[cfg(not(unix))]
fn open(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_toolkits_are_searched() {
        assert!(folders().contains(&PathBuf::from("/usr/local/cuda/lib64")));
    }

    #[test]
    fn what_is_missing_is_said_with_how_to_get_it() {
        // With a driver there is nothing to see here; the tests on a GPU cover that.
        if let Err(error) = check() {
            let text = error.to_string();
            assert!(text.contains("cuda") && text.contains("install"), "{text}");
        }
    }
}
