//! Compiled code on the device.

use std::ffi::{CString, c_void};
use std::fmt::Write;
use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUfunction, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue,
    CUlaunchConfig, CUmodule,
};
use millstream_gpu::Failure;

use super::{Stream, check};

/// Loaded code. Unloaded with its last function.
pub(crate) struct Module(CUmodule);

// SAFETY: the driver lets any thread use any module.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

/// A kernel that can be launched.
#[derive(Clone)]
pub(crate) struct Function {
    raw: CUfunction,
    /// For errors.
    name: Arc<str>,
    /// It may be started while the kernel before it on its stream still runs: it waits for that one itself.
    overlaps: bool,
    /// Keeps the code loaded.
    _module: Arc<Module>,
}

// SAFETY: the driver lets any thread launch any function.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Module {
    /// Loads a compiled program.
    ///
    /// # Errors
    ///
    /// What the driver said.
    pub fn load(image: &[u8]) -> Result<Arc<Self>, Failure> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the image is a whole ELF file, whose size the driver finds in its header; the context is
        // current.
        check("cuModuleLoadData", unsafe {
            sys::cuModuleLoadData(&mut raw, image.as_ptr().cast())
        })?;
        Ok(Arc::new(Self(raw)))
    }

    /// A kernel by name, ready to run: nothing is left to be loaded at its first launch. One that `overlaps`
    /// waits itself for the kernel before it, as all kernels of ours do where the architecture knows how.
    ///
    /// # Errors
    ///
    /// No kernel of that name, or what else the driver said.
    pub fn function(self: &Arc<Self>, name: &str, overlaps: bool) -> Result<Function, Failure> {
        let text = CString::new(name)
            .map_err(|_| Failure::new("cuModuleGetFunction", "bad name", name))?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the module lives as long as its owner, the name ends in a zero.
        check("cuModuleGetFunction", unsafe {
            sys::cuModuleGetFunction(&mut raw, self.0, text.as_ptr())
        })?;
        // SAFETY: the function was just found.
        check("cuFuncLoad", unsafe { sys::cuFuncLoad(raw) })?;
        Ok(Function { raw, name: name.into(), overlaps, _module: Arc::clone(self) })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded above and unloaded only here, when no function of it is left.
        unsafe { sys::cuModuleUnload(self.0) };
    }
}

impl Function {
    /// Launches the kernel.
    ///
    /// # Safety
    ///
    /// `arguments` point to as many values, of the sizes, as the kernel has parameters, and what these
    /// values say may be done: every address is valid for what the kernel does with it until it has run.
    ///
    /// # Errors
    ///
    /// What the driver said.
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        groups: [u32; 3],
        threads: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<(), Failure> {
        let mut overlap = CUlaunchAttribute {
            id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = CUlaunchConfig {
            gridDimX: groups[0],
            gridDimY: groups[1],
            gridDimZ: groups[2],
            blockDimX: threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: stream.raw(),
            attrs: &raw mut overlap,
            numAttrs: self.overlaps.into(),
        };
        // SAFETY: the handles live as long as their owners, and the attribute through the call; the rest is
        // the caller's promise.
        let status = unsafe {
            let arguments = arguments.as_mut_ptr();
            sys::cuLaunchKernelEx(&raw const config, self.raw, arguments, std::ptr::null_mut())
        };
        check("cuLaunchKernelEx", status).map_err(|mut failure| {
            let _ = write!(failure.text, ", {} with {groups:?} groups of {threads}", self.name);
            failure
        })
    }
}
