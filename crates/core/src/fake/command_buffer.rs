//! Metal's rules for command buffers, as a state machine.

use std::marker::PhantomData;

/// A command buffer that checks Metal's rules.
///
/// A use that would abort a Metal program is an error here.
///
/// It belongs to the thread that made it. Queues are `Send` and `Sync`, so no queue can store one.
///
/// ```compile_fail,E0277
/// # use millstream_core::api as millstream;
/// struct Stored(std::sync::Mutex<Option<millstream::backend::fake::CommandBuffer>>);
/// fn may_be_a_queue<Q: Send + Sync>() {}
/// may_be_a_queue::<Stored>();
/// ```
#[derive(Debug, Default)]
pub struct CommandBuffer {
    encoding: bool,
    committed: bool,
    handlers: usize,
    thread: PhantomData<*const ()>,
}

impl CommandBuffer {
    /// A new command buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts an encoder.
    ///
    /// # Errors
    ///
    /// Another encoder is open, or the buffer is committed.
    pub fn begin_encoding(&mut self) -> Result<(), &'static str> {
        self.not_committed("encoder on a committed command buffer")?;
        if std::mem::replace(&mut self.encoding, true) {
            return Err("a command encoder is already encoding to this command buffer");
        }
        Ok(())
    }

    /// Ends the encoder.
    ///
    /// # Errors
    ///
    /// No encoder is open.
    pub fn end_encoding(&mut self) -> Result<(), &'static str> {
        if !std::mem::replace(&mut self.encoding, false) {
            return Err("end of encoding without an encoder");
        }
        Ok(())
    }

    /// Adds a completion handler.
    ///
    /// # Errors
    ///
    /// The buffer is committed.
    pub fn add_handler(&mut self) -> Result<(), &'static str> {
        self.not_committed("completed handler provided after commit call")?;
        self.handlers += 1;
        Ok(())
    }

    /// Commits.
    ///
    /// # Errors
    ///
    /// An encoder is open, or the buffer is committed.
    pub fn commit(&mut self) -> Result<(), &'static str> {
        self.not_committed("commit an already committed command buffer")?;
        if self.encoding {
            return Err("commit command buffer with uncommitted encoder");
        }
        self.committed = true;
        Ok(())
    }

    fn not_committed(&self, message: &'static str) -> Result<(), &'static str> {
        if self.committed { Err(message) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
