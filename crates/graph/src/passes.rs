//! Rewrites of graphs. Each is small, keeps what the graph computes, and can be switched off.
//!
//! A pass goes through the nodes of a graph in order and writes a new one ([`rewrite`]). For each node it either says what
//! stands in its place, or leaves it. A pattern is found at its last node: what the nodes before it made is then read by nobody,
//! and [dead code](dead) takes them away. All shapes are known, so a pass never has to guess.

mod dead;
mod epilogue;
mod pack;
mod rewrite;
mod same;

use crate::Result;
use crate::constant::Folder;
use crate::graph::Graph;

/// A rewrite of graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pass {
    /// Nodes that compute the same are computed once.
    CommonSubexpressions,
    /// Bias, residual and activation become parts of the product or convolution before them.
    Epilogues,
    /// Weights of products are packed once.
    PackWeights,
}

impl Pass {
    /// All of them, in the order in which they run.
    pub const ALL: [Pass; 3] = [Pass::CommonSubexpressions, Pass::Epilogues, Pass::PackWeights];

    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Pass::CommonSubexpressions => "common-subexpressions",
            Pass::Epilogues => "epilogues",
            Pass::PackWeights => "pack-weights",
        }
    }

    fn run(self, graph: &Graph, folder: &Folder) -> Result<Graph> {
        match self {
            Pass::CommonSubexpressions => same::run(graph, folder),
            Pass::Epilogues => epilogue::run(graph, folder),
            Pass::PackWeights => pack::run(graph, folder),
        }
    }
}

/// Which passes are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passes(Vec<Pass>);

impl Default for Passes {
    fn default() -> Self {
        Self::all()
    }
}

impl Passes {
    /// All passes.
    pub fn all() -> Self {
        Self(Pass::ALL.to_vec())
    }

    /// No pass.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// The same without one.
    pub fn without(mut self, pass: Pass) -> Self {
        self.0.retain(|other| *other != pass);
        self
    }

    /// This pass and no other.
    pub fn only(pass: Pass) -> Self {
        Self(vec![pass])
    }

    /// Runs the passes that are on.
    pub(crate) fn run(&self, graph: &mut Graph, folder: &Folder) -> Result<()> {
        *graph = dead::run(graph)?;
        for pass in &self.0 {
            *graph = dead::run(&pass.run(graph, folder)?)?;
        }
        Ok(())
    }
}
