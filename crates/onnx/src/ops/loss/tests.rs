use millstream_core::Device;
use millstream_cpu as _;
use millstream_graph::{Array, Session};
use prost::Message;

fn message_for(operator: &str, classes: &[usize]) -> String {
    let model = crate::testing::model_of_node(operator, &["x", "classes"]);
    let body = crate::from_bytes(model.encode_to_vec()).unwrap();
    let device = Device::builder("cpu").threads(1).open().unwrap();
    let session = Session::builder(&device).build(body).unwrap();
    let x = Array::from_slice(&[0.5f32; 6], &[2, 3]).unwrap();
    let classes = Array::from_slice(&vec![1i64; classes.iter().product()], classes).unwrap();
    let outcome = session.run([("x", x), ("classes", classes)]);
    outcome.map_or_else(|error| error.to_string(), |_| "an answer".into())
}

/// Classes without an axis once made the importer panic.
#[test]
fn classes_need_the_shape_of_what_they_name() {
    for operator in ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"] {
        assert_eq!(message_for(operator, &[2]), "an answer");
        for wrong in [&[][..], &[3], &[2, 3]] {
            let message = message_for(operator, wrong);
            assert!(message.contains("classes of shape"), "{message}");
            assert!(message.contains(operator), "{message}");
        }
    }
}
