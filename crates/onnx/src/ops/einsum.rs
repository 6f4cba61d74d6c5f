//! Einstein's sums.

use millstream_core::{BinaryOp, DType, ReduceOp, Scalar};
use millstream_graph::{Edge, Expanded, Expander, Sizes};

use super::common::{
    Made, broadcast, choose, elements, fill, iota, one, pair, permute, reduce, refusal, refuse,
    reshape,
};
use super::product::multiplied;
use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[("Einsum", einsum)];

/// The name of an axis: a letter, or a place behind the dots, counted from the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Dots(std::cmp::Reverse<usize>),
    Letter(char),
}

/// A term of an equation.
#[derive(Clone, Debug, Default)]
struct Term {
    before: Vec<char>,
    /// Letters behind the dots, if there are dots.
    behind: Option<Vec<char>>,
}

impl Term {
    fn parse(text: &str) -> Result<Self> {
        let letters = |text: &str| -> Result<Vec<char>> {
            match text.chars().find(|letter| !letter.is_ascii_alphabetic()) {
                Some(other) => Err(refusal(format!("{other:?} in an equation"))),
                None => Ok(text.chars().collect()),
            }
        };
        match text.split_once("...") {
            Some((before, behind)) => {
                Ok(Self { before: letters(before)?, behind: Some(letters(behind)?) })
            }
            None => Ok(Self { before: letters(text)?, behind: None }),
        }
    }

    fn letters(&self) -> usize {
        self.before.len() + self.behind.as_ref().map_or(0, Vec::len)
    }

    /// The names of the axes, with so many that the dots stand for.
    fn labels(&self, dots: usize) -> Vec<Label> {
        let before = self.before.iter().map(|&letter| Label::Letter(letter));
        let Some(behind) = &self.behind else { return before.collect() };
        let dots = (0..dots).rev().map(|place| Label::Dots(std::cmp::Reverse(place)));
        before.chain(dots).chain(behind.iter().map(|&letter| Label::Letter(letter))).collect()
    }
}

/// A tensor whose axes have names.
#[derive(Clone, Debug)]
struct Named {
    edge: Edge,
    labels: Vec<Label>,
}

fn einsum(node: &mut NodeDef<'_, '_>) -> Made {
    let equation: String = match node.attributes.string("equation")? {
        Some(text) => text.chars().filter(|letter| !letter.is_whitespace()).collect(),
        None => return Err(refusal("equation is not given")),
    };
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (&equation[..], None),
    };
    let terms = left.split(',').map(Term::parse).collect::<Result<Vec<Term>>>()?;
    let result = right.map(Term::parse).transpose()?;
    operator(node, move |at, inputs| {
        let tensors = inputs.tensors()?;
        if tensors.len() != terms.len() {
            return refuse(format!("{} inputs for {} terms", tensors.len(), terms.len()));
        }
        let mut most = 0;
        let mut open = Vec::with_capacity(terms.len());
        for (term, &edge) in terms.iter().zip(&tensors) {
            let Some(dots) = at.rank(edge).checked_sub(term.letters()) else {
                return refuse("a term has more letters than its input has axes");
            };
            if dots > 0 && term.behind.is_none() {
                return refuse("a term has fewer letters than its input has axes");
            }
            most = most.max(dots);
            open.push(diagonal(at, Named { edge, labels: term.labels(dots) })?);
        }
        let wanted = match &result {
            Some(result) => result.labels(most),
            None => implied(&terms, most),
        };
        one(contracted(at, open, &wanted)?)
    })
}

/// What an equation without a result means: the dots, and then letters that occur once, in order.
fn implied(terms: &[Term], dots: usize) -> Vec<Label> {
    let letters = |term: &Term| -> Vec<char> {
        term.before.iter().chain(term.behind.iter().flatten()).copied().collect()
    };
    let all: Vec<char> = terms.iter().flat_map(letters).collect();
    let mut once: Vec<Label> = all
        .iter()
        .filter(|&letter| all.iter().filter(|other| *other == letter).count() == 1)
        .map(|&letter| Label::Letter(letter))
        .collect();
    once.sort();
    let dots = (0..dots).rev().map(|place| Label::Dots(std::cmp::Reverse(place)));
    dots.chain(once).collect()
}

/// Of axes that have the same name only the diagonal stays.
fn diagonal(at: &mut Expander<'_>, mut named: Named) -> Expanded<Named> {
    while let Some((first, second)) = repeated(&named.labels) {
        let shape = at.shape(named.edge);
        let line = |at: &mut Expander<'_>, axis: usize| {
            let mut line: Sizes = std::iter::repeat_n(1, shape.len()).collect();
            line[axis] = shape[axis];
            iota(at, DType::I64, &line, axis)
        };
        let (a, b) = (line(at, first)?, line(at, second)?);
        let same = pair(at, BinaryOp::Equal, a, b)?;
        let dtype = at.dtype(named.edge);
        let zero = fill(at, Scalar::Int(0), dtype, &[])?;
        let kept = choose(at, same, named.edge, zero)?;
        named = summed(at, Named { edge: kept, labels: named.labels }, &[second])?;
    }
    Ok(named)
}

fn repeated(labels: &[Label]) -> Option<(usize, usize)> {
    let second = (0..labels.len()).find(|&at| labels[..at].contains(&labels[at]))?;
    let first = labels.iter().position(|label| *label == labels[second])?;
    Some((first, second))
}

/// The sum over axes, which vanish.
fn summed(at: &mut Expander<'_>, named: Named, axes: &[usize]) -> Expanded<Named> {
    if axes.is_empty() {
        return Ok(named);
    }
    let sum = reduce(at, ReduceOp::Sum, named.edge, axes)?;
    let shape = at.shape(sum);
    let left = |axis: &usize| !axes.contains(axis);
    let sizes: Sizes = (0..shape.len()).filter(left).map(|axis| shape[axis]).collect();
    let labels = (0..shape.len()).filter(left).map(|axis| named.labels[axis]).collect();
    Ok(Named { edge: reshape(at, sum, &sizes)?, labels })
}

/// All terms as one, from the first on.
fn contracted(at: &mut Expander<'_>, open: Vec<Named>, wanted: &[Label]) -> Expanded<Edge> {
    let mut rest = open.into_iter();
    let Some(mut result) = rest.next() else { return refuse("there are no terms") };
    while let Some(next) = rest.next() {
        let later: Vec<Label> =
            rest.as_slice().iter().flat_map(|named| &named.labels).chain(wanted).copied().collect();
        result = joined(at, result, next, &later)?;
    }
    let gone: Vec<usize> =
        (0..result.labels.len()).filter(|&axis| !wanted.contains(&result.labels[axis])).collect();
    let result = summed(at, result, &gone)?;
    let order = wanted.iter().map(|label| result.labels.iter().position(|own| own == label));
    match order.collect::<Option<Sizes>>() {
        Some(order) if order.len() == result.labels.len() => permute(at, result.edge, &order),
        _ => refuse("the result has a letter that no term has, or one twice"),
    }
}

/// Two terms as one. Axes that nobody needs later vanish.
fn joined(at: &mut Expander<'_>, a: Named, b: Named, later: &[Label]) -> Expanded<Named> {
    let alone = |one: &Named, other: &Named| -> Vec<usize> {
        let unneeded = |label: &Label| !other.labels.contains(label) && !later.contains(label);
        (0..one.labels.len()).filter(|&axis| unneeded(&one.labels[axis])).collect()
    };
    let (gone_a, gone_b) = (alone(&a, &b), alone(&b, &a));
    let (a, b) = (summed(at, a, &gone_a)?, summed(at, b, &gone_b)?);
    let (a, b) = (stretched(at, a, &b)?, b);
    let b = stretched(at, b, &a)?;
    let shared = |label: &&Label| a.labels.contains(label) && b.labels.contains(label);
    let both: Vec<Label> = a.labels.iter().filter(shared).copied().collect();
    let (batch, inner): (Vec<Label>, Vec<Label>) =
        both.iter().copied().partition(|label| later.contains(label));
    let free = |one: &Named| -> Vec<Label> {
        one.labels.iter().copied().filter(|label| !both.contains(label)).collect()
    };
    let (rows, columns) = (free(&a), free(&b));
    let (left, batch_sizes, row_sizes) = arranged(at, &a, [&batch, &rows, &inner])?;
    let (right, _, _) = arranged(at, &b, [&batch, &inner, &columns])?;
    let column_sizes = sizes_of(at, &b, &columns);
    let product = multiplied(at, left, right)?;
    let shape: Sizes = batch_sizes.into_iter().chain(row_sizes).chain(column_sizes).collect();
    let edge = reshape(at, product, &shape)?;
    Ok(Named { edge, labels: batch.into_iter().chain(rows).chain(columns).collect() })
}

fn sizes_of(at: &Expander<'_>, named: &Named, labels: &[Label]) -> Sizes {
    let shape = at.shape(named.edge);
    let place = |label: &Label| named.labels.iter().position(|own| own == label);
    labels.iter().filter_map(|label| place(label).map(|axis| shape[axis])).collect()
}

/// A term as matrices: three groups of axes, each as one. Gives the sizes of the first two too.
fn arranged(
    at: &mut Expander<'_>,
    named: &Named,
    groups: [&[Label]; 3],
) -> Expanded<(Edge, Sizes, Sizes)> {
    let [first, second, third] = groups.map(|group| sizes_of(at, named, group));
    let order = groups.into_iter().flatten();
    let order: Sizes =
        order.filter_map(|label| named.labels.iter().position(|own| own == label)).collect();
    let moved = permute(at, named.edge, &order)?;
    let shape = [elements(&first), elements(&second), elements(&third)];
    Ok((reshape(at, moved, &shape)?, first, second))
}

/// A term whose axes of size 1 repeat over those of another that have the same name.
fn stretched(at: &mut Expander<'_>, named: Named, other: &Named) -> Expanded<Named> {
    let mut shape = at.shape(named.edge);
    for (axis, label) in named.labels.iter().enumerate() {
        if let [size] = sizes_of(at, other, &[*label])[..]
            && shape[axis] == 1
        {
            shape[axis] = size;
        }
    }
    Ok(Named { edge: broadcast(at, named.edge, &shape)?, labels: named.labels })
}
