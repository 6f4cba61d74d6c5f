use millstream_graph::Array;

use crate::proto::NodeProto;
use crate::testing::{answer_of_version, node};

/// The output of this number of a node with five: two channels, with numbers whose mean is 2 and 6, and whose variance is 1 and 4.
fn output(version: i64, number: usize) -> Result<(Vec<usize>, Vec<f32>), String> {
    let mut outputs: Vec<String> = (0..5).map(|at| format!("unread{at}")).collect();
    outputs[number] = "y".into();
    let inputs = ["x0", "x1", "x2", "x3", "x4"];
    let norm = NodeProto { output: outputs, ..node("BatchNormalization", &inputs, "y") };
    let array = |values: &[f32], shape: &[usize]| Array::from_slice(values, shape).unwrap();
    let x = array(&[1.0, 3.0, 4.0, 8.0, 3.0, 1.0, 8.0, 4.0], &[2, 2, 2]);
    let of_channels = [[1.0, 3.0], [10.0, 20.0], [100.0, 200.0], [50.0, 60.0]];
    let of_channels = of_channels.map(|values| array(&values, &[2]));
    answer_of_version(version, vec![norm], &[&[x][..], &of_channels].concat())
}

/// Models that were exported as they are trained have them, if only as outputs that nobody reads.
#[test]
fn five_outputs_mean_statistics_of_the_batch() {
    for version in [7, 9, 13] {
        let near = |number: usize, shape: &[usize], wanted: &[f32]| {
            let (found, values) = output(version, number).unwrap();
            assert_eq!(found, shape);
            let fits = values.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-3);
            assert!(fits, "{number}: {values:?} and {wanted:?}");
        };
        near(0, &[2, 2, 2], &[9.0, 11.0, 17.0, 23.0, 11.0, 9.0, 23.0, 17.0]);
        near(1, &[2], &[90.2, 180.6]);
        near(2, &[2], &[45.1, 54.4]);
        near(3, &[2], &[2.0, 6.0]);
        near(4, &[2], &[1.0, 0.5]);
    }
    assert!(output(15, 1).unwrap_err().contains("it has no output number 1"));
}
