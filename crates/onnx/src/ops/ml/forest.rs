//! Trees as flat arrays.

use std::collections::HashMap;

use super::super::common::refusal;
use crate::Result;

/// When a node goes to its first child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    AtMost,
    Below,
    AtLeast,
    Above,
    Equal,
    Other,
    /// The feature is one of a set, whose number is the value.
    Member,
}

/// A number of a child that is a leaf.
const LEAF: u32 = 1 << 31;

/// A node with two children.
#[derive(Clone, Copy, Debug)]
struct Node<T> {
    value: T,
    feature: u32,
    /// Children: nodes, or leaves where the highest bit is set.
    yes: u32,
    no: u32,
    mode: Mode,
    /// A feature that is not a number goes to the first child.
    missing: bool,
}

/// Numbers that features are compared as.
pub(super) trait Number:
    Copy + PartialOrd + Send + Sync + std::fmt::Debug + 'static
{
    const ZERO: Self;
    fn of_f64(value: f64) -> Self;
    fn is_missing(self) -> bool;
    fn plus(self, other: Self) -> Self;
    fn to_f64(self) -> f64;
}

macro_rules! number {
    ($type:ty) => {
        impl Number for $type {
            const ZERO: Self = 0.0;
            fn of_f64(value: f64) -> Self {
                value as $type
            }
            fn is_missing(self) -> bool {
                self.is_nan()
            }
            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn to_f64(self) -> f64 {
                self.into()
            }
        }
    };
}
number!(f32);
number!(f64);

/// Targets or classes that a file may name: a row has a score for each, whatever its leaves say.
const MAX_TARGETS: usize = 1 << 20;

/// How the scores of trees are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
    Sum,
    Average,
    Min,
    Max,
}

/// Trees, ready to be gone through. Every path ends: children come behind their parents.
#[derive(Clone, Debug)]
pub(super) struct Forest<T> {
    nodes: Vec<Node<T>>,
    /// The first node, or leaf, of every tree.
    roots: Vec<u32>,
    /// Where the weights of each leaf begin; one more at the end.
    leaves: Vec<u32>,
    weights: Vec<(u32, T)>,
    sets: Vec<Vec<T>>,
    targets: usize,
    /// Features that rows must have.
    features: usize,
    /// All nodes compare alike.
    only: Option<Mode>,
}

/// A child of a node of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Child {
    Node(usize),
    Leaf(usize),
}

/// A node of a file.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub value: f64,
    pub feature: usize,
    pub mode: Mode,
    pub missing: bool,
    pub yes: Child,
    pub no: Child,
    pub set: Option<Vec<f64>>,
}

/// The trees of a file.
#[derive(Debug, Default)]
pub(super) struct Trees {
    pub branches: Vec<Branch>,
    pub roots: Vec<Child>,
    /// Targets and weights of each leaf.
    pub leaves: Vec<Vec<(usize, f64)>>,
    pub targets: usize,
}

impl<T: Number> Forest<T> {
    /// Trees of a file. Children are put behind their parents.
    ///
    /// # Errors
    ///
    /// Too many targets, a child or target that there is not, a node with two parents, or more nodes than can be counted.
    pub fn new(trees: &Trees) -> Result<Self> {
        if trees.targets > MAX_TARGETS {
            return Err(refusal(format!("{} targets", trees.targets)));
        }
        if trees.branches.len() >= LEAF as usize || trees.leaves.len() >= LEAF as usize {
            return Err(refusal("too many nodes"));
        }
        let mut forest = Self {
            nodes: Vec::with_capacity(trees.branches.len()),
            roots: Vec::with_capacity(trees.roots.len()),
            leaves: vec![0],
            weights: Vec::new(),
            sets: Vec::new(),
            targets: trees.targets,
            features: 0,
            only: trees.branches.first().map(|branch| branch.mode),
        };
        for leaf in &trees.leaves {
            for &(target, weight) in leaf {
                if target >= trees.targets {
                    return Err(refusal(format!("target {target} of {}", trees.targets)));
                }
                forest.weights.push((target as u32, T::of_f64(weight)));
            }
            let end = u32::try_from(forest.weights.len());
            forest.leaves.push(end.map_err(|_| refusal("too many weights"))?);
        }
        let mut placed: HashMap<usize, u32> = HashMap::new();
        for &root in &trees.roots {
            let root = forest.place(trees, root, &mut placed)?;
            forest.roots.push(root);
        }
        Ok(forest)
    }

    /// Puts a tree behind those that are there, its nodes in the order in which they are met.
    fn place(
        &mut self,
        trees: &Trees,
        root: Child,
        placed: &mut HashMap<usize, u32>,
    ) -> Result<u32> {
        // Nodes whose place is known, and that wait to be filled.
        let mut open: Vec<usize> = Vec::new();
        let first = self.child(trees, root, placed, &mut open)?;
        let mut next = 0;
        while let Some(&number) = open.get(next) {
            next += 1;
            let branch = &trees.branches[number];
            let yes = self.child(trees, branch.yes, placed, &mut open)?;
            let no = self.child(trees, branch.no, placed, &mut open)?;
            let value = match &branch.set {
                Some(set) => {
                    self.sets.push(set.iter().map(|&value| T::of_f64(value)).collect());
                    T::of_f64((self.sets.len() - 1) as f64)
                }
                None => T::of_f64(branch.value),
            };
            let feature = u32::try_from(branch.feature).map_err(|_| refusal("feature"))?;
            self.features = self.features.max(branch.feature.saturating_add(1));
            if self.only != Some(branch.mode) {
                self.only = None;
            }
            let Branch { mode, missing, .. } = *branch;
            let at = placed[&number] as usize;
            self.nodes[at] = Node { value, feature, yes, no, mode, missing };
        }
        Ok(first)
    }

    /// The place of a child, which must not have one yet.
    fn child(
        &mut self,
        trees: &Trees,
        child: Child,
        placed: &mut HashMap<usize, u32>,
        open: &mut Vec<usize>,
    ) -> Result<u32> {
        match child {
            Child::Leaf(leaf) if leaf < trees.leaves.len() => Ok(LEAF | leaf as u32),
            Child::Node(number) if number < trees.branches.len() => {
                let place = self.nodes.len() as u32;
                if placed.insert(number, place).is_some() {
                    return Err(refusal(format!("node {number} belongs to two others")));
                }
                let (value, mode) = (T::ZERO, Mode::AtMost);
                self.nodes.push(Node {
                    value,
                    feature: 0,
                    yes: LEAF,
                    no: LEAF,
                    mode,
                    missing: false,
                });
                open.push(number);
                Ok(place)
            }
            Child::Leaf(number) | Child::Node(number) => {
                Err(refusal(format!("node or leaf {number} is not there")))
            }
        }
    }

    /// Features that rows must have.
    pub fn features(&self) -> usize {
        self.features
    }

    pub fn targets(&self) -> usize {
        self.targets
    }

    pub fn trees(&self) -> usize {
        self.roots.len()
    }

    /// The leaf that a row comes to.
    #[inline]
    fn leaf(&self, root: u32, row: &[T], goes: impl Fn(&Node<T>, T) -> bool) -> usize {
        let mut at = root;
        while at & LEAF == 0 {
            let node = &self.nodes[at as usize];
            let value = row[node.feature as usize];
            let yes = goes(node, value) || (node.missing && value.is_missing());
            at = if yes { node.yes } else { node.no };
        }
        (at & !LEAF) as usize
    }

    fn goes(&self, node: &Node<T>, value: T) -> bool {
        match node.mode {
            Mode::AtMost => value <= node.value,
            Mode::Below => value < node.value,
            Mode::AtLeast => value >= node.value,
            Mode::Above => value > node.value,
            Mode::Equal => value == node.value,
            Mode::Other => value != node.value,
            Mode::Member => self.sets[node.value.to_f64() as usize].contains(&value),
        }
    }

    /// Computes the scores of rows, `targets` of each, and which of them a leaf was found for. Both begin as 0 and false.
    pub fn score(
        &self,
        rows: &[T],
        columns: usize,
        aggregate: Aggregate,
        scores: &mut [T],
        found: &mut [bool],
    ) {
        // A tree for all rows, then the next: its nodes stay near.
        for &root in &self.roots {
            for (index, row) in rows.chunks_exact(columns.max(1)).enumerate() {
                let leaf = match self.only {
                    Some(Mode::AtMost) => self.leaf(root, row, |node, value| value <= node.value),
                    Some(Mode::Below) => self.leaf(root, row, |node, value| value < node.value),
                    _ => self.leaf(root, row, |node, value| self.goes(node, value)),
                };
                let weights = self.leaves[leaf] as usize..self.leaves[leaf + 1] as usize;
                for &(target, weight) in &self.weights[weights] {
                    let place = index * self.targets + target as usize;
                    let score = &mut scores[place];
                    *score = match aggregate {
                        Aggregate::Sum | Aggregate::Average => score.plus(weight),
                        Aggregate::Min if found[place] && *score < weight => *score,
                        Aggregate::Max if found[place] && *score > weight => *score,
                        Aggregate::Min | Aggregate::Max => weight,
                    };
                    found[place] = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
