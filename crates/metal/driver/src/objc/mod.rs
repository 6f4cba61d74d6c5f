//! A small Objective-C runtime: what objc2 calls, with the calling convention of GNUstep's.

mod block;
mod class;
mod object;
mod pool;
mod selector;

pub use block::{Block, BlockRef};
pub use class::{Class, Method};
pub(crate) use class::{class, counted, method};
pub use object::{Header, Id, Payload, This, cast, living, retained};
pub(crate) use object::{autoreleased, new, objc_release, objc_retain};
pub use pool::{autorelease, with_pool};
pub use selector::Sel;

/// What methods take and give as `id`.
pub type Raw = *mut Header;
