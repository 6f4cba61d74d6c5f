//! Scans of many batches.

use millstream_core::{DType, Device};
use millstream_cpu as _;
use millstream_graph::Session;
use millstream_nn::Tensor;

use prost::Message;

use crate::proto::{AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto};
use crate::testing::{model, node, port};

/// A Scan of the first version, which adds up what it iterates over.
fn sums() -> ModelProto {
    let body = GraphProto {
        node: vec![node("Add", &["s", "e"], "t")],
        input: vec![port("s"), port("e")],
        output: vec![port("t")],
        ..Default::default()
    };
    let attribute = |name: &str| AttributeProto { name: Some(name.into()), ..Default::default() };
    let scan = NodeProto {
        op_type: Some("Scan".into()),
        input: vec![String::new(), "start".into(), "xs".into()],
        output: vec!["last".into()],
        attribute: vec![
            AttributeProto { g: Some(body), r#type: Some(5), ..attribute("body") },
            AttributeProto { i: Some(1), r#type: Some(2), ..attribute("num_scan_inputs") },
        ],
        ..Default::default()
    };
    let graph = GraphProto {
        node: vec![scan],
        input: vec![port("start"), port("xs")],
        output: vec![port("last")],
        ..Default::default()
    };
    let opset = OperatorSetIdProto { domain: None, version: Some(8) };
    ModelProto { opset_import: vec![opset], ..model(graph) }
}

#[test]
fn many_batches_without_a_step_fit_on_a_small_stack() {
    const BATCHES: usize = 3000;
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(|| {
        let device = Device::cpu().unwrap();
        let body = crate::from_bytes(sums().encode_to_vec()).unwrap();
        let session = Session::builder(&device).build(body).unwrap();
        let start = Tensor::ones(&[BATCHES, 3], DType::F32, &device).unwrap();
        let xs = Tensor::zeros(&[BATCHES, 0, 3], DType::F32, &device).unwrap();
        let inputs = [&start, &xs];
        let outputs = session.run(inputs).unwrap();
        outputs.wait().unwrap();
        let last = outputs.read::<f32>("last").unwrap();
        assert_eq!(last.len(), BATCHES * 3);
        assert!(last.iter().all(|&value| value == 1.0));
    });
    thread.unwrap().join().unwrap();
}
