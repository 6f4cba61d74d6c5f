//! Trees as attributes describe them.

use std::collections::HashMap;

use super::super::common::refusal;
use super::forest::{Branch, Child, Mode, Trees};
use crate::Result;
use crate::node::NodeDef;
use crate::tensor::Literal;

/// Numbers of an attribute, which newer operators also have as a tensor.
pub(super) fn numbers(node: &NodeDef<'_, '_>, name: &str) -> Result<Vec<f64>> {
    let own = node.attributes.floats(name)?.unwrap_or_default();
    match node.literal(&format!("{name}_as_tensor"))? {
        Some(Literal::Array(array)) if array.elements() > 0 => array.to_f64s(),
        _ => Ok(own.iter().map(|&value| f64::from(value)).collect()),
    }
}

fn mode(name: &str) -> Result<Option<Mode>> {
    Ok(Some(match name {
        "BRANCH_LEQ" => Mode::AtMost,
        "BRANCH_LT" => Mode::Below,
        "BRANCH_GTE" => Mode::AtLeast,
        "BRANCH_GT" => Mode::Above,
        "BRANCH_EQ" => Mode::Equal,
        "BRANCH_NEQ" => Mode::Other,
        "LEAF" => return Ok(None),
        other => return Err(refusal(format!("nodes_modes has {other:?}"))),
    }))
}

fn place(value: i64, what: &str) -> Result<usize> {
    usize::try_from(value).map_err(|_| refusal(format!("{what} {value}")))
}

/// The trees of a TreeEnsembleClassifier or -Regressor. `prefix` is `class` or `target`. A leaf is a node without children, and
/// its weights have lists of their own.
pub(super) fn of_lists(node: &NodeDef<'_, '_>, prefix: &str, targets: usize) -> Result<Trees> {
    let attributes = &node.attributes;
    let ints = |name: &str| -> Result<&[i64]> { Ok(attributes.ints(name)?.unwrap_or_default()) };
    attributes.ignore(&["nodes_hitrates", "nodes_hitrates_as_tensor"]);
    let (tree_ids, node_ids) = (ints("nodes_treeids")?, ints("nodes_nodeids")?);
    let (features, modes) = (ints("nodes_featureids")?, attributes.strings("nodes_modes")?);
    let modes = modes.unwrap_or_default();
    let (yes, no) = (ints("nodes_truenodeids")?, ints("nodes_falsenodeids")?);
    let missing = ints("nodes_missing_value_tracks_true")?;
    let values = numbers(node, "nodes_values")?;
    let count = tree_ids.len();
    let lengths = [node_ids.len(), features.len(), modes.len(), yes.len(), no.len(), values.len()];
    if lengths != [count; 6] || !(missing.is_empty() || missing.len() == count) {
        return Err(refusal(format!("lists of {count}, {lengths:?} and {} nodes", missing.len())));
    }
    // Nodes by tree and number; branches and leaves are counted apart.
    let mut children: HashMap<(i64, i64), Child> = HashMap::with_capacity(count);
    let (mut branches, mut leaves) = (0, 0);
    let mut roots = Vec::new();
    let mut seen_trees = std::collections::HashSet::new();
    let mut kinds = Vec::with_capacity(count);
    for index in 0..count {
        let mode = mode(&modes[index])?;
        let child = match mode {
            Some(_) => {
                branches += 1;
                Child::Node(branches - 1)
            }
            None => {
                leaves += 1;
                Child::Leaf(leaves - 1)
            }
        };
        if children.insert((tree_ids[index], node_ids[index]), child).is_some() {
            let (tree, own) = (tree_ids[index], node_ids[index]);
            return Err(refusal(format!("node {own} of tree {tree} is there twice")));
        }
        // The first node of a tree is its root.
        if seen_trees.insert(tree_ids[index]) {
            roots.push(child);
        }
        kinds.push(mode);
    }
    let mut trees = Trees {
        branches: Vec::with_capacity(branches),
        roots,
        leaves: vec![Vec::new(); leaves],
        targets,
    };
    let child = |tree: i64, own: i64| match children.get(&(tree, own)) {
        Some(child) => Ok(*child),
        None => Err(refusal(format!("node {own} of tree {tree} is not there"))),
    };
    for (index, mode) in kinds.into_iter().enumerate() {
        let Some(mode) = mode else { continue };
        let tree = tree_ids[index];
        trees.branches.push(Branch {
            value: values[index],
            feature: place(features[index], "feature")?,
            mode,
            missing: missing.get(index).is_some_and(|&track| track != 0),
            yes: child(tree, yes[index])?,
            no: child(tree, no[index])?,
            set: None,
        });
    }
    let (tree_ids, node_ids) =
        (ints(&format!("{prefix}_treeids"))?, ints(&format!("{prefix}_nodeids"))?);
    let ids = ints(&format!("{prefix}_ids"))?;
    let weights = numbers(node, &format!("{prefix}_weights"))?;
    let count = tree_ids.len();
    if [node_ids.len(), ids.len(), weights.len()] != [count; 3] {
        return Err(refusal(format!(
            "lists of {count}, {} and {} weights",
            ids.len(),
            weights.len()
        )));
    }
    for index in 0..count {
        // A weight of a node that is no leaf is never met. Where there is one target, a leaf has one weight, the first, as
        // onnxruntime has it: decision paths of scikit-learn are written once for each class.
        if let Child::Leaf(leaf) = child(tree_ids[index], node_ids[index])?
            && (targets != 1 || trees.leaves[leaf].is_empty())
        {
            trees.leaves[leaf].push((place(ids[index], "target")?, weights[index]));
        }
    }
    Ok(trees)
}

/// The trees of a TreeEnsemble.
pub(super) fn of_tensors(node: &NodeDef<'_, '_>) -> Result<Trees> {
    let attributes = &node.attributes;
    let places = |name: &str| -> Result<Vec<usize>> {
        let given = attributes.ints(name)?.unwrap_or_default().iter();
        given.map(|&value| place(value, name)).collect()
    };
    let tensor = |name: &str| -> Result<Vec<f64>> {
        match node.literal(name)? {
            Some(Literal::Array(array)) => array.to_f64s(),
            Some(Literal::Strings(_)) => Err(refusal(format!("{name} has strings"))),
            None => Ok(Vec::new()),
        }
    };
    attributes.ignore(&["nodes_hitrates"]);
    let targets = place(attributes.int_or("n_targets", 1)?, "n_targets")?;
    let (roots, features) = (places("tree_roots")?, places("nodes_featureids")?);
    let (splits, modes) = (tensor("nodes_splits")?, tensor("nodes_modes")?);
    let (yes, yes_leaves) = (places("nodes_truenodeids")?, places("nodes_trueleafs")?);
    let (no, no_leaves) = (places("nodes_falsenodeids")?, places("nodes_falseleafs")?);
    let missing = places("nodes_missing_value_tracks_true")?;
    let count = features.len();
    let lengths =
        [splits.len(), modes.len(), yes.len(), yes_leaves.len(), no.len(), no_leaves.len()];
    if lengths != [count; 6] || !(missing.is_empty() || missing.len() == count) {
        return Err(refusal(format!("lists of {count}, {lengths:?} and {} nodes", missing.len())));
    }
    // Sets stand behind each other, with something that is no number between.
    let members = tensor("membership_values")?;
    let mut sets = members.split(|value| value.is_nan());
    let mut branches = Vec::with_capacity(count);
    let child = |number: usize, leaf: usize| match leaf {
        0 => Child::Node(number),
        _ => Child::Leaf(number),
    };
    for index in 0..count {
        let mode = match modes[index] as i64 {
            0 => Mode::AtMost,
            1 => Mode::Below,
            2 => Mode::AtLeast,
            3 => Mode::Above,
            4 => Mode::Equal,
            5 => Mode::Other,
            6 => Mode::Member,
            other => return Err(refusal(format!("nodes_modes has {other}"))),
        };
        let set = match mode {
            Mode::Member => match sets.next() {
                Some(set) => Some(set.to_vec()),
                None => return Err(refusal("membership_values has too few sets")),
            },
            _ => None,
        };
        branches.push(Branch {
            value: splits[index],
            feature: features[index],
            mode,
            missing: missing.get(index).is_some_and(|&track| track != 0),
            yes: child(yes[index], yes_leaves[index]),
            no: child(no[index], no_leaves[index]),
            set,
        });
    }
    let (ids, weights) = (places("leaf_targetids")?, tensor("leaf_weights")?);
    if ids.len() != weights.len() {
        return Err(refusal(format!("{} targets and {} weights", ids.len(), weights.len())));
    }
    let leaves = ids.into_iter().zip(weights).map(|leaf| vec![leaf]).collect();
    let roots = roots.into_iter().map(Child::Node).collect();
    Ok(Trees { branches, roots, leaves, targets })
}
