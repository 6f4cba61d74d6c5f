//! Residency sets.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::buffer::PAGE;
use super::lock;
use crate::control;
use crate::deviations::{Deviation, deviates};
use crate::foundation::alloc_default;
use crate::objc::{Header, Sel, This, class, method};

/// `MTLResidencySet`. Allocations are known by their address: a set does not keep them alive in this driver, as an
/// allocation must stay in its set's books until it is removed.
#[derive(Default)]
pub struct ResidencySet {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// As the last commit left it.
    committed: BTreeSet<usize>,
    pending: BTreeSet<usize>,
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
        if state.committed.contains(&address) {
            Residency::Resident
        } else if state.pending.contains(&address) {
            Residency::Pending
        } else {
            Residency::Absent
        }
    }
}

unsafe extern "C" fn add(this: This<ResidencySet>, _: Sel, allocation: *const Header) {
    let mut state = lock(&this.state);
    state.pending.insert(allocation.addr());
    if deviates(Deviation::CommitsSets) {
        state.committed = state.pending.clone();
    }
}

unsafe extern "C" fn remove(this: This<ResidencySet>, _: Sel, allocation: *const Header) {
    lock(&this.state).pending.remove(&allocation.addr());
}

/// The addresses of a list of allocations.
///
/// # Safety
///
/// There are so many.
unsafe fn addresses(allocations: *const *const Header, count: usize) -> Vec<usize> {
    // SAFETY: as the caller says.
    let address = |index| unsafe { (*allocations.add(index)).addr() };
    (0..count).map(address).collect()
}

unsafe extern "C" fn add_many(
    this: This<ResidencySet>,
    _: Sel,
    allocations: *const *const Header,
    count: usize,
) {
    // SAFETY: the caller passes so many.
    let added = unsafe { addresses(allocations, count) };
    lock(&this.state).pending.extend(added);
}

unsafe extern "C" fn remove_many(
    this: This<ResidencySet>,
    _: Sel,
    allocations: *const *const Header,
    count: usize,
) {
    // SAFETY: the caller passes so many.
    let removed = unsafe { addresses(allocations, count) };
    lock(&this.state).pending.retain(|address| !removed.contains(address));
}

unsafe extern "C" fn remove_all(this: This<ResidencySet>, _: Sel) {
    lock(&this.state).pending.clear();
}

unsafe extern "C" fn contains(this: This<ResidencySet>, _: Sel, allocation: *const Header) -> bool {
    lock(&this.state).pending.contains(&allocation.addr())
}

unsafe extern "C" fn count(this: This<ResidencySet>, _: Sel) -> usize {
    lock(&this.state).pending.len()
}

/// As the last commit left it; every allocation counts as a page.
unsafe extern "C" fn allocated_size(this: This<ResidencySet>, _: Sel) -> u64 {
    (lock(&this.state).committed.len() * PAGE) as u64
}

unsafe extern "C" fn commit(this: This<ResidencySet>, _: Sel) {
    let mut state = lock(&this.state);
    state.committed = state.pending.clone();
}

unsafe extern "C" fn request(_: This<ResidencySet>, _: Sel) {
    control::count_residency_request();
}

unsafe extern "C" fn nothing(_: This<ResidencySet>, _: Sel) {}

unsafe extern "C" fn set_capacity(_: This<Descriptor>, _: Sel, _: usize) {}
