use super::*;

fn branch(value: f64, feature: usize, yes: Child, no: Child) -> Branch {
    Branch { value, feature, mode: Mode::AtMost, missing: false, yes, no, set: None }
}

/// Two levels: feature 0 at 1, then feature 1 at 2 or 3.
fn trees() -> Trees {
    Trees {
        branches: vec![
            branch(1.0, 0, Child::Node(1), Child::Node(2)),
            branch(2.0, 1, Child::Leaf(0), Child::Leaf(1)),
            branch(3.0, 1, Child::Leaf(2), Child::Leaf(3)),
        ],
        roots: vec![Child::Node(0)],
        leaves: (0..4).map(|leaf| vec![(0, 10.0 * f64::from(leaf))]).collect(),
        targets: 1,
    }
}

/// The scores of rows.
fn scores<T: Number>(
    forest: &Forest<T>,
    rows: &[T],
    columns: usize,
    aggregate: Aggregate,
) -> Vec<T> {
    let count = rows.len() / columns * forest.targets();
    let mut scores = vec![T::ZERO; count];
    forest.score(rows, columns, aggregate, &mut scores, &mut vec![false; count]);
    scores
}

#[test]
fn rows_come_to_their_leaf() {
    let forest = Forest::<f32>::new(&trees()).unwrap();
    assert_eq!((forest.features(), forest.trees()), (2, 1));
    let rows = [1.0, 2.0, 0.0, 2.5, 1.5, 3.0, 2.0, 9.0];
    assert_eq!(scores(&forest, &rows, 2, Aggregate::Sum), [0.0, 10.0, 20.0, 30.0]);
    // What is no number is not at most anything.
    assert_eq!(scores(&forest, &[f32::NAN, 1.0], 2, Aggregate::Sum), [20.0]);
}

#[test]
fn a_missing_feature_follows_its_track() {
    let mut trees = trees();
    trees.branches[0].missing = true;
    let forest = Forest::<f64>::new(&trees).unwrap();
    assert_eq!(scores(&forest, &[f64::NAN, 1.0], 2, Aggregate::Sum), [0.0]);
}

#[test]
fn trees_are_combined() {
    let mut trees = trees();
    trees.roots = vec![Child::Node(0), Child::Leaf(3), Child::Leaf(1)];
    let forest = Forest::<f32>::new(&trees).unwrap();
    let combined = |aggregate| scores(&forest, &[5.0, 1.0], 2, aggregate)[0];
    assert_eq!(combined(Aggregate::Sum), 60.0);
    assert_eq!(combined(Aggregate::Min), 10.0);
    assert_eq!(combined(Aggregate::Max), 30.0);
}

#[test]
fn nodes_that_form_no_tree_are_refused() {
    let mut circle = trees();
    circle.branches[2].no = Child::Node(0);
    assert!(Forest::<f32>::new(&circle).is_err());
    let mut shared = trees();
    shared.branches[0].no = Child::Node(1);
    assert!(Forest::<f32>::new(&shared).is_err());
    let mut outside = trees();
    outside.branches[0].no = Child::Leaf(4);
    assert!(Forest::<f32>::new(&outside).is_err());
    let mut target = trees();
    target.leaves[0][0].0 = 1;
    assert!(Forest::<f32>::new(&target).is_err());
    let mut many = trees();
    many.targets = usize::MAX;
    assert!(Forest::<f32>::new(&many).is_err());
}

#[test]
fn a_set_is_a_condition_too() {
    let mut trees = trees();
    trees.branches[0].mode = Mode::Member;
    trees.branches[0].set = Some(vec![2.0, 4.0]);
    let forest = Forest::<f32>::new(&trees).unwrap();
    assert_eq!(scores(&forest, &[4.0, 1.0, 3.0, 1.0], 2, Aggregate::Sum), [0.0, 20.0]);
}
