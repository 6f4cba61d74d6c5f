//! Graphs: launches that were captured once and are submitted as one.

use cudarc::driver::sys::{self, CUgraph, CUgraphExec, CUstreamCaptureMode};
use millstream_gpu::Failure;

use super::{Stream, check};

/// A graph that can be launched again and again.
pub(crate) struct GraphExec(CUgraphExec);

// SAFETY: the driver lets any thread launch a graph, one at a time, which `&mut` and the queue's lock see
// to.
unsafe impl Send for GraphExec {}

/// A captured graph before it can be launched.
struct Captured(CUgraph);

impl Drop for Captured {
    fn drop(&mut self) {
        // SAFETY: made by a capture and destroyed only here.
        unsafe { sys::cuGraphDestroy(self.0) };
    }
}

impl GraphExec {
    /// Captures what `work` gives to a stream that is used for nothing else. Only calls of this thread
    /// are held to the rules of a capture; other threads go on as they like.
    ///
    /// # Errors
    ///
    /// What the driver said, or the error of `work`.
    pub fn capture(
        stream: &Stream,
        work: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the handle lives as long as its owner.
        check("cuStreamBeginCapture", unsafe { sys::cuStreamBeginCapture_v2(stream.raw(), mode) })?;
        let done = work();
        let mut raw = std::ptr::null_mut();
        // The capture is ended whatever became of the work, so that the stream can be used again.
        // SAFETY: as above, and `raw` is a place for the result.
        let ended = unsafe { sys::cuStreamEndCapture(stream.raw(), &mut raw) };
        let captured = (!raw.is_null()).then_some(Captured(raw));
        done?;
        check("cuStreamEndCapture", ended)?;
        let Some(captured) = captured else {
            let text = "the capture gave nothing";
            return Err(Failure::new("cuStreamEndCapture", "no graph", text));
        };
        let mut exec = std::ptr::null_mut();
        // SAFETY: the graph lives until the end of this function, and `exec` is a place for the result.
        check("cuGraphInstantiate", unsafe {
            sys::cuGraphInstantiateWithFlags(&mut exec, captured.0, 0)
        })?;
        Ok(Self(exec))
    }

    /// Launches it, after everything given to the stream before.
    ///
    /// # Errors
    ///
    /// What the driver said.
    pub fn launch(&mut self, stream: &Stream) -> Result<(), Failure> {
        // SAFETY: both handles live as long as their owners.
        check("cuGraphLaunch", unsafe { sys::cuGraphLaunch(self.0, stream.raw()) })
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        // SAFETY: instantiated above and destroyed only here. Launches that run go on until they end.
        unsafe { sys::cuGraphExecDestroy(self.0) };
    }
}
