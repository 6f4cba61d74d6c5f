//! `Debug` of public types: names and sizes. Nothing here takes a lock.

use std::fmt::{Debug, Formatter, Result};

use crate::fake::{
    Fake, FakeCaptured, FakeControl, FakeEncoder, FakeHostMemory, FakeKernel, FakeMemory,
    FakeProduct, FakeQueue,
};
use crate::{GpuBackend, Item, LaunchFailure, LaunchList, Memory, Page, Platform, Segments};

macro_rules! by_name {
    ($($type:ident $(<$parameter:ident $(: $bound:ident)?>)?),* $(,)?) => {
        $(
            impl $(<$parameter $(: $bound)?>)? Debug for $type $(<$parameter>)? {
                fn fmt(&self, f: &mut Formatter<'_>) -> Result {
                    f.debug_struct(stringify!($type)).finish_non_exhaustive()
                }
            }
        )*
    };
}

by_name!(
    Fake,
    FakeCaptured,
    FakeControl,
    FakeEncoder,
    FakeKernel,
    FakeProduct,
    FakeQueue,
    GpuBackend<P: Platform>,
    LaunchList<P: Platform>,
    Page<M>,
    Segments<S>,
);

macro_rules! by_place {
    ($($type:ident),*) => {
        $(
            impl Debug for $type {
                fn fmt(&self, f: &mut Formatter<'_>) -> Result {
                    f.debug_struct(stringify!($type))
                        .field("address", &format_args!("{:#x}", self.address()))
                        .field("bytes", &self.bytes())
                        .finish_non_exhaustive()
                }
            }
        )*
    };
}

by_place!(FakeHostMemory, FakeMemory);

impl Debug for LaunchFailure {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("LaunchFailure")
            .field("launched", &self.launched)
            .field("command", &self.command)
            .field("failure", &self.failure.to_string())
            .finish()
    }
}

impl<P: Platform> Debug for Item<'_, P> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Item::Kernel { groups, threads, .. } => {
                let mut kernel = f.debug_struct("Kernel");
                kernel.field("groups", groups).field("threads", threads).finish_non_exhaustive()
            }
            Item::Product(_) => f.write_str("Product"),
            Item::Copy { bytes, .. } => {
                f.debug_struct("Copy").field("bytes", bytes).finish_non_exhaustive()
            }
            Item::Time { .. } => f.write_str("Time"),
            Item::Finish => f.write_str("Finish"),
            Item::CopyAndFinish { bytes, .. } => {
                f.debug_struct("CopyAndFinish").field("bytes", bytes).finish_non_exhaustive()
            }
        }
    }
}
