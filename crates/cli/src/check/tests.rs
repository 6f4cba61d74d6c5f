use millstream::graph::NodeInfo;

use super::{NAMED, places};

#[test]
fn the_first_nodes_are_named_and_the_others_counted() {
    let nodes: Vec<NodeInfo> =
        (0..NAMED + 2).map(|at| NodeInfo::new(format!("n{at}"), "Foo")).collect();
    let nodes: Vec<&NodeInfo> = nodes.iter().collect();
    assert_eq!(places(&nodes[..2]), "n0, n1");
    assert_eq!(places(&nodes[..NAMED]), "n0, n1, n2, n3, n4");
    assert_eq!(places(&nodes), "n0, n1, n2, n3, n4, and 2 more");
}

#[test]
fn a_node_without_a_name_is_named_by_what_it_makes_and_where() {
    let mut node = NodeInfo::new("", "Foo");
    node.outputs = vec!["y".into(), "z".into()];
    assert_eq!(places(&[&node]), "y");
    node.place = "if_3/then_branch".into();
    assert_eq!(places(&[&node]), "y in if_3/then_branch");
}
