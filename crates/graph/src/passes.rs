//! Rewrites of graphs. Each is small, keeps what the graph computes, and can be switched off.
//!
//! A pass goes through the nodes of a graph in order and writes a new one ([`rewrite`]). For each node it either says what
//! stands in its place, or leaves it. A pattern is found at its last node: what the nodes before it made is then read by nobody,
//! and [dead code](dead) takes them away. All shapes are known, so a pass never has to guess.

mod activation;
mod affine;
mod attention;
mod chain;
mod channels_last;
mod dead;
mod epilogue;
mod merge;
mod norm;
mod pack;
mod pattern;
mod quantized;
mod rewrite;
mod same;
#[cfg(test)]
mod tests;

use crate::Result;
use crate::constant::Folder;
use crate::graph::Graph;

/// A rewrite of graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pass {
    /// Nodes that compute the same are computed once.
    CommonSubexpressions,
    /// Layer norm and RMS norm that are written as several operations.
    Norms,
    /// GELU, SiLU, hard swish and Mish that are written as several operations, and squares written as powers.
    Activations,
    /// Two products and a softmax become attention.
    Attention,
    /// Products of numbers that are quantized to 8 bits become products of integers.
    Quantized,
    /// Constant factors and summands, such as those of a batch norm, go into weights.
    Affine,
    /// Bias, residual and activation become parts of the product or convolution before them.
    Epilogues,
    /// Products of one input with several weights, such as query, key and value, become one.
    MergeProducts,
    /// Weights of products are packed once.
    PackWeights,
    /// Elementwise operations that follow each other are computed in one pass.
    Chains,
    /// Convolutions on the CPU read and write the channels of one place after another.
    ChannelsLast,
}

impl Pass {
    /// All of them, in the order in which they run.
    pub const ALL: [Pass; 11] = [
        Pass::CommonSubexpressions,
        Pass::Norms,
        Pass::Activations,
        Pass::Attention,
        Pass::Quantized,
        Pass::Affine,
        Pass::Epilogues,
        Pass::MergeProducts,
        Pass::PackWeights,
        Pass::Chains,
        Pass::ChannelsLast,
    ];

    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Pass::CommonSubexpressions => "common-subexpressions",
            Pass::Norms => "norms",
            Pass::Activations => "activations",
            Pass::Attention => "attention",
            Pass::Quantized => "quantized",
            Pass::Affine => "affine",
            Pass::Epilogues => "epilogues",
            Pass::MergeProducts => "merge-products",
            Pass::PackWeights => "pack-weights",
            Pass::Chains => "chains",
            Pass::ChannelsLast => "channels-last",
        }
    }

    fn run(self, graph: &Graph, folder: &Folder) -> Result<Graph> {
        match self {
            Pass::CommonSubexpressions => same::run(graph, folder),
            Pass::Norms => norm::run(graph, folder),
            Pass::Activations => activation::run(graph, folder),
            Pass::Attention => attention::run(graph, folder),
            Pass::Quantized => quantized::run(graph, folder),
            Pass::Affine => affine::run(graph, folder),
            Pass::Epilogues => epilogue::run(graph, folder),
            Pass::MergeProducts => merge::run(graph, folder),
            Pass::PackWeights => pack::run(graph, folder),
            Pass::Chains => chain::run(graph, folder),
            Pass::ChannelsLast => Ok(channels_last::run(graph, folder)),
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
            *graph = pass.run(graph, folder)?;
            // It leaves the nodes as they are, and is the last one: others know nothing of how edges lie.
            if *pass != Pass::ChannelsLast {
                *graph = dead::run(graph)?;
            }
        }
        Ok(())
    }
}
