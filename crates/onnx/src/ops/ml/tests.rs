use millstream_graph::Array;

use crate::proto::{AttributeProto, NodeProto};
use crate::testing::{answer, node};

/// A node of this domain.
fn learned(operator: &str, floats: &[(&str, &[f32])], ints: &[(&str, &[i64])]) -> NodeProto {
    let named = |name: &str, kind: i32| AttributeProto {
        name: Some(name.into()),
        r#type: Some(kind),
        ..Default::default()
    };
    let floats = floats
        .iter()
        .map(|&(name, floats)| AttributeProto { floats: floats.to_vec(), ..named(name, 6) });
    let ints =
        ints.iter().map(|&(name, ints)| AttributeProto { ints: ints.to_vec(), ..named(name, 7) });
    NodeProto {
        domain: Some("ai.onnx.ml".into()),
        attribute: floats.chain(ints).collect(),
        ..node(operator, &["x0"], "y")
    }
}

/// The same with two outputs, of which the second is `y`.
fn classifier(operator: &str, floats: &[(&str, &[f32])], ints: &[(&str, &[i64])]) -> NodeProto {
    let output = vec!["label".into(), "y".into()];
    NodeProto { output, ..learned(operator, floats, ints) }
}

/// A question about no rows is answered by no rows, as wide as any: what follows may join them with others.
#[test]
fn scores_of_no_rows_are_as_wide_as_any() {
    let labels: (&str, &[i64]) = ("classlabels_ints", &[4, 5, 6]);
    let two: (&str, &[i64]) = ("classlabels_ints", &[4, 5]);
    let linear: [(&str, &[f32]); 2] = [("coefficients", &[1.0; 6]), ("intercepts", &[0.0; 3])];
    let single: [(&str, &[f32]); 2] = [("coefficients", &[1.0; 2]), ("intercepts", &[0.0])];
    let vectors: [(&str, &[f32]); 4] = [
        ("coefficients", &[1.0; 6]),
        ("support_vectors", &[0.5; 6]),
        ("rho", &[0.0; 3]),
        ("kernel_params", &[0.5, 0.0, 3.0]),
    ];
    let counts: (&str, &[i64]) = ("vectors_per_class", &[1, 1, 1]);
    let cases = [
        (classifier("LinearClassifier", &linear, &[labels]), 3),
        (classifier("LinearClassifier", &single, &[two]), 2),
        (classifier("SVMClassifier", &vectors, &[labels, counts]), 3),
    ];
    for (node, width) in cases {
        for rows in [0, 1, 2] {
            let x = Array::from_slice(&vec![0.25f32; rows * 2], &[rows, 2]).unwrap();
            let (shape, _) = answer(vec![node.clone()], &[x]).unwrap();
            assert_eq!(shape, [rows, width], "{:?}", node.op_type);
        }
    }
}

/// The leaf that a row comes to, as skl2onnx writes it: the number of a leaf once for each class, all for one target.
#[test]
fn a_leaf_has_one_weight_where_there_is_one_target() {
    let modes = AttributeProto {
        name: Some("nodes_modes".into()),
        r#type: Some(8),
        strings: ["BRANCH_LEQ", "LEAF", "LEAF"].map(Into::into).to_vec(),
        ..Default::default()
    };
    let score = |targets: i64, ids: &[i64]| {
        let zeros: &[i64] = &[0; 4];
        let mut tree = learned(
            "TreeEnsembleRegressor",
            &[("nodes_values", &[0.5, 0.0, 0.0]), ("target_weights", &[1.0, 3.0, 2.0, 5.0])],
            &[
                ("nodes_treeids", &zeros[..3]),
                ("nodes_nodeids", &[0, 1, 2]),
                ("nodes_featureids", &zeros[..3]),
                ("nodes_truenodeids", &[1, 0, 0]),
                ("nodes_falsenodeids", &[2, 0, 0]),
                ("target_treeids", zeros),
                ("target_nodeids", &[1, 1, 2, 2]),
                ("target_ids", ids),
            ],
        );
        let number = AttributeProto {
            name: Some("n_targets".into()),
            r#type: Some(2),
            i: Some(targets),
            ..Default::default()
        };
        tree.attribute.extend([modes.clone(), number]);
        let x = Array::from_slice(&[0.0f32, 1.0], &[2, 1]).unwrap();
        answer(vec![tree], &[x]).unwrap().1
    };
    assert_eq!(score(1, &[0, 0, 0, 0]), [1.0, 2.0]);
    assert_eq!(score(2, &[0, 1, 0, 1]), [1.0, 3.0, 2.0, 5.0]);
    assert_eq!(score(2, &[0, 0, 1, 1]), [4.0, 0.0, 0.0, 7.0]);
}
