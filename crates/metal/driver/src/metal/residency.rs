//! Residency sets.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::buffer::PAGE;
use super::lock;
use crate::control;
use crate::deviations::{Deviation, deviates};
use crate::foundation::{Any, alloc_default, leave_temporary};
use crate::objc::{Header, Sel, This, class, method};
use crate::rules::{Rule, violation};

/// `MTLResidencySet`. It keeps its allocations: those that were committed until a commit after their removal.
#[derive(Default)]
pub struct ResidencySet {
    state: Mutex<State>,
    /// Whether a thread is inside a method that changes it.
    used: AtomicBool,
}

#[derive(Default)]
struct State {
    /// As the last commit left it.
    committed: BTreeMap<usize, Any>,
    pending: BTreeMap<usize, Any>,
}

/// `MTLResidencySetDescriptor`.
#[derive(Default)]
pub struct Descriptor(());

class!(
    /// The class of residency sets.
    SET, "MillstreamResidencySet", ResidencySet,
    [
        method!(c"addAllocation:", c"v@:@", add, fn(This<ResidencySet>, Sel, *const Header)),
        method!(c"removeAllocation:", c"v@:@", remove, fn(This<ResidencySet>, Sel, *const Header)),
        method!(c"addAllocations:count:", c"v@:^@Q", add_many, fn(This<ResidencySet>, Sel, *const *const Header, usize)),
        method!(c"removeAllocations:count:", c"v@:^@Q", remove_many, fn(This<ResidencySet>, Sel, *const *const Header, usize)),
        method!(c"removeAllAllocations", c"v@:", remove_all, fn(This<ResidencySet>, Sel)),
        method!(c"containsAllocation:", c"C@:@", contains, fn(This<ResidencySet>, Sel, *const Header) -> bool),
        method!(c"allocationCount", c"Q@:", count, fn(This<ResidencySet>, Sel) -> usize),
        method!(c"allocatedSize", c"Q@:", allocated_size, fn(This<ResidencySet>, Sel) -> u64),
        method!(c"commit", c"v@:", commit, fn(This<ResidencySet>, Sel)),
        method!(c"requestResidency", c"v@:", request, fn(This<ResidencySet>, Sel)),
        method!(c"endResidency", c"v@:", nothing, fn(This<ResidencySet>, Sel)),
    ]
);

class!(
    /// MTLResidencySetDescriptor.
    DESCRIPTOR, "MTLResidencySetDescriptor", Descriptor,
    [method!(c"setInitialCapacity:", c"v@:Q", set_capacity, fn(This<Descriptor>, Sel, usize))],
    alloc: alloc_default::<Descriptor>
);

/// What a set says of an allocation.
pub enum Residency {
    Resident,
    /// Added, but not committed.
    Pending,
    Absent,
}

impl ResidencySet {
    pub fn look_up(&self, address: usize) -> Residency {
        let state = lock(&self.state);
        if state.committed.contains_key(&address) {
            Residency::Resident
        } else if state.pending.contains_key(&address) {
            Residency::Pending
        } else {
            Residency::Absent
        }
    }

    /// Changes it, as one thread at a time may. What goes is released behind the lock.
    fn change(&self, call: Sel, change: impl FnOnce(&mut State) -> Vec<Any>) {
        let Some(_used) = self.enter(call) else { return };
        leave_temporary();
        let gone = change(&mut lock(&self.state));
        drop(gone);
    }

    fn enter(&self, call: Sel) -> Option<Used<'_>> {
        if self.used.swap(true, Ordering::Acquire) {
            let call = call.name();
            violation(
                Rule::ResidencySetShared,
                format_args!("{call} while another thread is inside"),
            );
            return None;
        }
        Some(Used(self))
    }
}

/// A thread inside a method of a set.
struct Used<'a>(&'a ResidencySet);

impl Drop for Used<'_> {
    fn drop(&mut self) {
        self.0.used.store(false, Ordering::Release);
    }
}

impl State {
    fn add(&mut self, allocation: *const Header) {
        // SAFETY: the caller of the message passes an object that lives.
        let kept = unsafe { Any::retain(allocation.cast_mut()) };
        self.pending.insert(allocation.addr(), kept);
        if deviates(Deviation::CommitsSets) {
            self.committed = self.pending.clone();
        }
    }

    /// Gives what counts no more.
    fn commit(&mut self) -> Vec<Any> {
        let next = self.pending.clone();
        std::mem::replace(&mut self.committed, next).into_values().collect()
    }
}

unsafe extern "C" fn add(this: This<ResidencySet>, sel: Sel, allocation: *const Header) {
    this.change(sel, |state| {
        state.add(allocation);
        Vec::new()
    });
}

unsafe extern "C" fn remove(this: This<ResidencySet>, sel: Sel, allocation: *const Header) {
    this.change(sel, |state| state.pending.remove(&allocation.addr()).into_iter().collect());
}

/// The allocations of a list.
///
/// # Safety
///
/// There are so many.
unsafe fn listed(allocations: *const *const Header, count: usize) -> Vec<*const Header> {
    // SAFETY: as the caller says.
    (0..count).map(|index| unsafe { *allocations.add(index) }).collect()
}

unsafe extern "C" fn add_many(
    this: This<ResidencySet>,
    sel: Sel,
    allocations: *const *const Header,
    count: usize,
) {
    // SAFETY: the caller passes so many.
    let added = unsafe { listed(allocations, count) };
    this.change(sel, |state| {
        added.into_iter().for_each(|allocation| state.add(allocation));
        Vec::new()
    });
}

unsafe extern "C" fn remove_many(
    this: This<ResidencySet>,
    sel: Sel,
    allocations: *const *const Header,
    count: usize,
) {
    // SAFETY: the caller passes so many.
    let removed = unsafe { listed(allocations, count) };
    this.change(sel, |state| {
        let remove = |allocation: *const Header| state.pending.remove(&allocation.addr());
        removed.into_iter().filter_map(remove).collect()
    });
}

unsafe extern "C" fn remove_all(this: This<ResidencySet>, sel: Sel) {
    this.change(sel, |state| std::mem::take(&mut state.pending).into_values().collect());
}

unsafe extern "C" fn contains(this: This<ResidencySet>, _: Sel, allocation: *const Header) -> bool {
    lock(&this.state).pending.contains_key(&allocation.addr())
}

unsafe extern "C" fn count(this: This<ResidencySet>, _: Sel) -> usize {
    lock(&this.state).pending.len()
}

/// As the last commit left it; every allocation counts as a page.
unsafe extern "C" fn allocated_size(this: This<ResidencySet>, _: Sel) -> u64 {
    (lock(&this.state).committed.len() * PAGE) as u64
}

unsafe extern "C" fn commit(this: This<ResidencySet>, sel: Sel) {
    this.change(sel, State::commit);
}

unsafe extern "C" fn request(this: This<ResidencySet>, sel: Sel) {
    let Some(_used) = this.enter(sel) else { return };
    leave_temporary();
    let time = control::residency_time();
    if !time.is_zero() {
        std::thread::sleep(time);
    }
    control::count_residency_request();
}

unsafe extern "C" fn nothing(_: This<ResidencySet>, _: Sel) {}

unsafe extern "C" fn set_capacity(_: This<Descriptor>, _: Sel, _: usize) {}
