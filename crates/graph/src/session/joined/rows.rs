//! Calls of several rows, which are as many calls of one row.
//!
//! That calls can be joined says nothing about the rows within a call. But where it is proved for calls of one row, every row of a batch is
//! computed by itself. A call of several rows is then joined with calls of any number of rows, as so many calls of one: its
//! [unit](Unit). For this it is proved in the same way that the call is such a batch itself. What is compared is the graph that it runs as
//! alone, so each row has the bits in a batch that it has alone.
//!
//! A dynamic quantization takes one scale for all rows of a call. Alone it is no batch of rows, which would have a scale each; the proof
//! fails, and such calls are joined with those of as many rows. So are calls whose rows read each other in any other way.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Context;
use super::axes;
use super::group::{Group, PreparePlace};
use crate::program::{Form, Settings};
use crate::recent_cache::RecentCache;
use crate::separate::Share;

/// The groups of a session.
pub(super) struct Groups {
    groups: RecentCache<Vec<Form>, Group>,
    /// What calls of several rows are made of, or that they are not, as far as that is known.
    units: RecentCache<Vec<Form>, Option<Unit>>,
}

/// What a call of several rows is made of.
struct Unit {
    /// The forms of a call of one row.
    forms: Vec<Form>,
    /// How the rows share the inputs.
    shares: Vec<Share>,
    /// So many such calls are one call.
    rows: usize,
}

impl Groups {
    pub fn new(settings: &Settings) -> Self {
        Self {
            // Each has several plans, and one for its calls. Calls of several rows have a second one until they enter that of one row.
            groups: RecentCache::new(settings.stages.div_ceil(16).max(2), settings.timeout),
            // Each stands for a plan that its calls have alone.
            units: RecentCache::new(settings.stages, settings.timeout),
        }
    }

    /// The group of calls of these forms.
    pub fn group(&self, context: &Arc<Context>, forms: Vec<Form>) -> Option<Arc<Group>> {
        self.groups.get_or_build(forms, |forms| Ok(Group::new(context, forms))).ok()
    }

    /// The group of calls of one row that a call of several rows enters, if that is known, and the number of rows.
    pub fn unit(&self, context: &Arc<Context>, forms: &Vec<Form>) -> Option<(Arc<Group>, usize)> {
        let known = self.units.find(forms)?;
        let Unit { forms, shares, rows } = known.as_ref().as_ref()?;
        let group = match self.groups.find(forms) {
            Some(group) => group,
            None => self.group(context, forms.clone())?,
        };
        match group.known_proof() {
            Some(Ok(proof)) if proof.inputs == *shares => Some((group, *rows)),
            Some(_) => None,
            // The group has made room for others meanwhile, and is a new one.
            None => {
                group.prepare_behind();
                None
            }
        }
    }

    /// The groups that calls of their forms enter.
    pub fn in_use(&self) -> Vec<Arc<Group>> {
        let mut groups = self.groups.values();
        groups.retain(|group| self.units.find(&group.forms).is_none_or(|unit| unit.is_none()));
        groups
    }
}

impl Group {
    /// The group of calls of one row that calls of this form enter, and the number of their rows. It is found out if it is not known:
    /// that takes as long as a proof.
    pub(super) fn unit(&self) -> Option<(Arc<Group>, usize)> {
        let groups = self.context.groups.upgrade()?;
        let ways = axes::ways_by_rows(&self.context, &self.forms);
        if ways.is_empty() {
            return None;
        }
        let find = |_: &Vec<Form>| Ok(self.find_unit(&groups, ways));
        // Where that fails, calls are joined with those of as many rows.
        let _ = groups.units.get_or_build(self.forms.clone(), find);
        groups.unit(&self.context, &self.forms)
    }

    fn find_unit(&self, groups: &Groups, ways: Vec<axes::ByRows>) -> Option<Unit> {
        let context = &self.context;
        ways.into_iter().find_map(|way| {
            let alone = axes::outputs_by_rows(context, &self.forms, &way)?;
            let axes::ByRows { shares, unit, rows } = way;
            let group = groups.group(context, unit.clone())?;
            let proof = group.prove().as_ref().ok()?;
            let alike = !proof.grows
                && proof.inputs == shares
                && axes::same_outputs(&alone, &proof.outputs);
            // With room for one such call only, it would never be joined with its like.
            let fits = rows.checked_mul(2).is_some_and(|rows| rows <= group.most());
            (alike && fits).then_some(Unit { forms: unit, shares, rows })
        })
    }

    /// Finds out behind the calls what those of this form are made of, if they meet calls with another number of rows.
    pub(super) fn find_unit_behind(self: &Arc<Self>) {
        if self.sought_unit.load(Ordering::Relaxed) || !self.meets_other_rows() {
            return;
        }
        let Some(place) = PreparePlace::take(&self.context) else { return };
        // Two may find that it was not.
        if self.sought_unit.swap(true, Ordering::Relaxed) {
            return;
        }
        let group = Arc::clone(self);
        let work = move || {
            let _place = place;
            // A panic of an operator must not end the process; calls then go on as before.
            let found = || group.unit().is_some();
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(found));
        };
        // Without a thread for it, calls go on as before.
        let _ = std::thread::Builder::new().name("millstream-batching".into()).spawn(work);
    }

    /// Whether calls are there that may be of the same rows, but of another number of them.
    fn meets_other_rows(&self) -> bool {
        let Some(groups) = self.context.groups.upgrade() else { return false };
        groups
            .groups
            .any(|other| other.is_busy() && axes::differ_in_rows(&self.forms, &other.forms))
    }
}
