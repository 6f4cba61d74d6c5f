//! onnxruntime through its C interface.

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};

use libloading::{Library, Symbol};
use ort_sys::*;

use crate::inputs::{Element, Input};
use crate::{Caller, Model, Result};

/// A loaded model. Never freed: the process measures it and ends.
pub struct Session {
    api: &'static OrtApi,
    session: *mut OrtSession,
    memory: *mut OrtMemoryInfo,
    outputs: Vec<*const c_char>,
}

// SAFETY: onnxruntime says that `Run` may be called by several threads at once; the rest is never written again.
unsafe impl Sync for Session {}

/// What onnxruntime says of a failure.
fn check(api: &OrtApi, status: OrtStatusPtr) -> Result<()> {
    if status.0.is_null() {
        return Ok(());
    }
    // SAFETY: the status is one of this interface, and its message ends with a zero.
    Err(unsafe { CStr::from_ptr((api.GetErrorMessage)(status.0)) }.to_string_lossy().into())
}

impl Session {
    pub fn open(library: &Path, model: &Path, inside: i32, spin: bool) -> Result<Self> {
        // SAFETY: the library is onnxruntime's, which may be loaded anywhere, and stays loaded; the functions have the
        // types that its interface says, and get pointers that live through the call.
        unsafe {
            let library: &'static Library = Box::leak(Box::new(Library::new(library)?));
            let base: Symbol<unsafe extern "C" fn() -> *const OrtApiBase> =
                library.get(b"OrtGetApiBase\0")?;
            let api = ((*base()).GetApi)(17).as_ref().ok_or("onnxruntime is too old")?;
            let (mut env, mut options) = (null_mut(), null_mut());
            let level = OrtLoggingLevel::ORT_LOGGING_LEVEL_ERROR;
            check(api, (api.CreateEnv)(level, c"peer".as_ptr(), &mut env))?;
            check(api, (api.CreateSessionOptions)(&mut options))?;
            let all = GraphOptimizationLevel::ORT_ENABLE_ALL;
            check(api, (api.SetSessionGraphOptimizationLevel)(options, all))?;
            check(api, (api.SetIntraOpNumThreads)(options, inside))?;
            let key = c"session.intra_op.allow_spinning".as_ptr();
            let value = if spin { c"1" } else { c"0" };
            check(api, (api.AddSessionConfigEntry)(options, key, value.as_ptr()))?;
            let path = CString::new(model.as_os_str().as_bytes())?;
            let mut session = null_mut();
            check(api, (api.CreateSession)(env, path.as_ptr(), options, &mut session))?;
            let mut memory = null_mut();
            let kind = OrtAllocatorType::OrtArenaAllocator;
            check(
                api,
                (api.CreateCpuMemoryInfo)(kind, OrtMemType::OrtMemTypeDefault, &mut memory),
            )?;
            let (mut allocator, mut count) = (null_mut(), 0);
            check(api, (api.GetAllocatorWithDefaultOptions)(&mut allocator))?;
            check(api, (api.SessionGetOutputCount)(session, &mut count))?;
            let mut outputs = Vec::new();
            for index in 0..count {
                let mut name = null_mut();
                check(api, (api.SessionGetOutputName)(session, index, allocator, &mut name))?;
                outputs.push(name.cast_const());
            }
            Ok(Session { api, session, memory, outputs })
        }
    }
}

impl Model for Session {
    fn caller<'a>(&'a self, inputs: &'a mut [Input]) -> Result<Box<dyn Caller + 'a>> {
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for input in inputs {
            let element = match input.element {
                Element::F32 => ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                Element::I32 => ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32,
                Element::I64 => ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
            };
            let (data, mut value) = (input.data(), null_mut());
            let (bytes, rank) = (input.bytes, input.shape.len());
            // SAFETY: the input outlives the value, and has so many bytes and that shape.
            let status = unsafe {
                let create = self.api.CreateTensorWithDataAsOrtValue;
                create(self.memory, data, bytes, input.shape.as_ptr(), rank, element, &mut value)
            };
            check(self.api, status)?;
            names.push(input.name.as_ptr());
            values.push(value.cast_const());
        }
        Ok(Box::new(Call {
            model: self,
            names,
            values,
            outputs: vec![null_mut(); self.outputs.len()],
        }))
    }
}

struct Call<'a> {
    model: &'a Session,
    names: Vec<*const c_char>,
    values: Vec<*const OrtValue>,
    outputs: Vec<*mut OrtValue>,
}

impl Caller for Call<'_> {
    fn call(&mut self) -> Result<()> {
        let Session { api, session, outputs, .. } = self.model;
        for output in &mut self.outputs {
            // SAFETY: the last call made it, or it is null; it is not used again.
            unsafe { (api.ReleaseValue)(std::mem::replace(output, null_mut())) };
        }
        // SAFETY: the lists have the lengths that are given, and the values live through the call.
        let status = unsafe {
            let (names, values) = (self.names.as_ptr(), self.values.as_ptr());
            let (made, count) = (self.outputs.as_mut_ptr(), outputs.len());
            (api.Run)(
                *session,
                null(),
                names,
                values,
                self.values.len(),
                outputs.as_ptr(),
                count,
                made,
            )
        };
        check(api, status)
    }

    fn outputs(&self) -> Result<Vec<&[u8]>> {
        let api = self.model.api;
        let one = |&value: &*mut OrtValue| {
            // SAFETY: the last call made the value, which is a tensor and lives until the next one.
            unsafe {
                let (mut data, mut info, mut count) = (null_mut::<c_void>(), null_mut(), 0);
                check(api, (api.GetTensorMutableData)(value, &mut data))?;
                check(api, (api.GetTensorTypeAndShape)(value, &mut info))?;
                check(api, (api.GetTensorShapeElementCount)(info, &mut count))?;
                let mut element =
                    ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
                check(api, (api.GetTensorElementType)(info, &mut element))?;
                (api.ReleaseTensorTypeAndShapeInfo)(info);
                let wide =
                    element == ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
                let size = if wide { 8 } else { 4 };
                Ok(std::slice::from_raw_parts(data.cast_const().cast::<u8>(), count * size))
            }
        };
        self.outputs.iter().map(one).collect()
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let release = self.model.api.ReleaseValue;
        let inputs = self.values.iter().map(|value| value.cast_mut());
        for value in inputs.chain(self.outputs.iter().copied()) {
            // SAFETY: the values are this caller's, and not used again.
            unsafe { release(value) };
        }
    }
}
