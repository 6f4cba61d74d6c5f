//! Blocks: closures of Objective-C.

use std::ffi::{c_int, c_ulong, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, Ordering};

use super::object::count;
use crate::own_time::OwnTime;

/// As compilers lay blocks out.
#[repr(C)]
pub struct Block {
    isa: *const c_void,
    flags: AtomicI32,
    reserved: c_int,
    invoke: *const (),
    descriptor: *const Descriptor,
}

#[repr(C)]
struct Descriptor {
    reserved: c_ulong,
    bytes: c_ulong,
    copy: Option<unsafe extern "C" fn(*mut Block, *const Block)>,
    dispose: Option<unsafe extern "C" fn(*mut Block)>,
}

/// What blocks count as among living objects.
const CLASS: &str = "NSBlock";

const COUNTED: i32 = 0xffff;
const NEEDS_FREE: i32 = 1 << 24;
const HAS_HELPERS: i32 = 1 << 25;
const IS_GLOBAL: i32 = 1 << 28;

/// The classes of blocks, of which only the addresses matter.
#[repr(transparent)]
pub struct BlockClass([usize; 32]);

#[unsafe(no_mangle)]
static _NSConcreteStackBlock: BlockClass = BlockClass([0; 32]);
#[unsafe(no_mangle)]
static _NSConcreteGlobalBlock: BlockClass = BlockClass([0; 32]);
#[unsafe(no_mangle)]
static _NSConcreteMallocBlock: BlockClass = BlockClass([0; 32]);

#[unsafe(no_mangle)]
unsafe extern "C" fn _Block_copy(block: *mut Block) -> *mut Block {
    let _own = OwnTime::begin();
    // SAFETY: null or a block, by the caller's word; the descriptor says how large it is.
    unsafe {
        let Some(own) = block.as_ref() else { return block };
        let flags = own.flags.load(Ordering::Relaxed);
        if flags & IS_GLOBAL != 0 {
            return block;
        }
        if flags & NEEDS_FREE != 0 {
            own.flags.fetch_add(1, Ordering::Relaxed);
            return block;
        }
        let bytes = (*own.descriptor).bytes as usize;
        let copy = libc::malloc(bytes).cast::<Block>();
        assert!(!copy.is_null(), "no memory for a block");
        count(CLASS, 1);
        std::ptr::copy_nonoverlapping(block.cast::<u8>(), copy.cast(), bytes);
        (*copy).flags = AtomicI32::new(flags & !COUNTED | NEEDS_FREE | 1);
        (*copy).isa = (&raw const _NSConcreteMallocBlock).cast();
        if flags & HAS_HELPERS != 0
            && let Some(helper) = (*own.descriptor).copy
        {
            helper(copy, block);
        }
        copy
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _Block_release(block: *mut Block) {
    let _own = OwnTime::begin();
    // SAFETY: null or a block, by the caller's word.
    unsafe {
        let Some(own) = block.as_ref() else { return };
        let flags = own.flags.load(Ordering::Relaxed);
        if flags & IS_GLOBAL != 0
            || flags & NEEDS_FREE == 0
            || own.flags.fetch_sub(1, Ordering::AcqRel) & COUNTED != 1
        {
            return;
        }
        if flags & HAS_HELPERS != 0
            && let Some(helper) = (*own.descriptor).dispose
        {
            helper(block);
        }
        libc::free(block.cast());
        count(CLASS, -1);
    }
}

/// A copy of a block that the driver keeps.
pub struct BlockRef(NonNull<Block>);

// SAFETY: Metal calls blocks on threads of its own; who passes one vouches for what it holds.
unsafe impl Send for BlockRef {}
// SAFETY: as above.
unsafe impl Sync for BlockRef {}

impl BlockRef {
    /// # Safety
    ///
    /// `block` is null or a block.
    pub unsafe fn copy(block: *mut Block) -> Option<Self> {
        // SAFETY: as the caller says.
        NonNull::new(unsafe { _Block_copy(block) }).map(Self)
    }

    /// The function, whose first parameter is [`Self::as_ptr`].
    pub fn invoke(&self) -> *const () {
        // SAFETY: a living block.
        unsafe { self.0.as_ref().invoke }
    }

    pub fn as_ptr(&self) -> *mut Block {
        self.0.as_ptr()
    }
}

impl Drop for BlockRef {
    fn drop(&mut self) {
        // SAFETY: gives back the copy.
        unsafe { _Block_release(self.0.as_ptr()) };
    }
}
