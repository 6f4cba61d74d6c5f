//! Shared events, their listeners, and fences.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use super::lock;
use crate::foundation::{alloc_default, leave_temporary};
use crate::objc::{Block, BlockRef, Id, Sel, This, class, method};
use crate::rules::{Rule, violation};

/// `MTLSharedEvent`: a number that rises.
#[derive(Default)]
pub struct SharedEvent {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    value: u64,
    listeners: Vec<(u64, BlockRef)>,
}

class!(
    /// The class of shared events.
    EVENT, "MillstreamSharedEvent", SharedEvent,
    [
        method!(c"signaledValue", c"Q@:", value, fn(This<SharedEvent>, Sel) -> u64),
        method!(c"setSignaledValue:", c"v@:Q", set_value, fn(This<SharedEvent>, Sel, u64)),
        method!(c"waitUntilSignaledValue:timeoutMS:", c"C@:QQ", wait, fn(This<SharedEvent>, Sel, u64, u64) -> bool),
        method!(c"notifyListener:atValue:block:", c"v@:@Q@?", notify, fn(This<SharedEvent>, Sel, This<Listener>, u64, *mut Block)),
    ]
);

/// `MTLSharedEventListener`. Blocks are called on a thread of their own.
#[derive(Default)]
pub struct Listener(());

class!(
    /// MTLSharedEventListener.
    LISTENER, "MTLSharedEventListener", Listener, [],
    alloc: alloc_default::<Listener>
);

impl SharedEvent {
    pub fn value(&self) -> u64 {
        lock(&self.state).value
    }

    /// Sets the value, as the CPU or a queue does, and calls whom it reaches.
    pub fn set(this: &Id<Self>, value: u64) {
        let mut state = lock(&this.state);
        if value < state.value {
            violation(Rule::EventGoesBack, format_args!("from {} to {value}", state.value));
            return;
        }
        state.value = value;
        this.changed.notify_all();
        let reached =
            state.listeners.extract_if(.., |(wanted, _)| *wanted <= value).collect::<Vec<_>>();
        drop(state);
        for (_, block) in reached {
            call_listener(this.clone(), block, value);
        }
    }
}

/// Listeners are called from a dispatch queue, which is another thread, some time later.
fn call_listener(event: Id<SharedEvent>, block: BlockRef, value: u64) {
    std::thread::spawn(move || {
        crate::gpu::Jitter::new().pause();
        type Notification = unsafe extern "C" fn(*mut Block, This<SharedEvent>, u64);
        // SAFETY: a block of this signature, as `notifyListener` takes it.
        unsafe {
            let call = std::mem::transmute::<*const (), Notification>(block.invoke());
            call(block.as_ptr(), event.this(), value);
        }
    });
}

unsafe extern "C" fn value(this: This<SharedEvent>, _: Sel) -> u64 {
    SharedEvent::value(&this)
}

unsafe extern "C" fn set_value(this: This<SharedEvent>, _: Sel, value: u64) {
    SharedEvent::set(&this.retain(), value);
}

unsafe extern "C" fn wait(this: This<SharedEvent>, _: Sel, value: u64, milliseconds: u64) -> bool {
    leave_temporary();
    let until = Instant::now() + Duration::from_millis(milliseconds.min(1 << 40));
    let mut state = lock(&this.state);
    while state.value < value {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        state = this
            .changed
            .wait_timeout(state, left)
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .0;
    }
    true
}

unsafe extern "C" fn notify(
    this: This<SharedEvent>,
    _: Sel,
    _: This<Listener>,
    wanted: u64,
    block: *mut Block,
) {
    // SAFETY: the caller passes a block.
    let Some(block) = (unsafe { BlockRef::copy(block) }) else { return };
    let mut state = lock(&this.state);
    let value = state.value;
    if value < wanted {
        state.listeners.push((wanted, block));
        return;
    }
    drop(state);
    call_listener(this.retain(), block, value);
}

/// `MTLFence`: orders encoders of one queue that use untracked memory.
pub struct Fence {
    /// Its name in passes.
    pub number: u64,
}

class!(
    /// The class of fences.
    FENCE, "MillstreamFence", Fence, []
);

impl Default for Fence {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }
}
