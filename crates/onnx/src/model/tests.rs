use millstream_core::{DType, Device};
use millstream_cpu as _;
use millstream_graph::{Array, Session};
use prost::Message;

use super::*;
use crate::proto::{OperatorSetIdProto, ValueInfoProto};
use crate::testing::{model, node, port};

#[test]
fn importing_ends_at_its_deadline() {
    let proto = crate::testing::model_of_node("Relu", &["x"]);
    let mut model = Model::new(&proto, ExternalFiles::none()).unwrap();
    assert!(model.import().is_ok());
    let Some(past) = Instant::now().checked_sub(Duration::from_secs(1)) else { return };
    model.deadline = past;
    let error = model.import().unwrap_err().to_string();
    assert!(error.contains("importing takes longer than 120s"), "{error}");
}

/// `f(a, c, most) = if c { clip(a, , most) } else { -a }`, called without the last input.
#[test]
fn a_branch_of_a_function_reads_an_input_that_a_call_leaves_out() {
    let branch = |node: NodeProto, output: &str| GraphProto {
        node: vec![node],
        output: vec![port(output)],
        ..Default::default()
    };
    let attribute = |name: &str, graph: GraphProto| AttributeProto {
        name: Some(name.into()),
        g: Some(graph),
        r#type: Some(5),
        ..Default::default()
    };
    let mut chosen = node("If", &["c"], "o");
    chosen.attribute = vec![
        attribute("then_branch", branch(node("Clip", &["a", "", "most"], "t"), "t")),
        attribute("else_branch", branch(node("Neg", &["a"], "e"), "e")),
    ];
    let opset = |domain: &str, version| OperatorSetIdProto {
        domain: Some(domain.into()),
        version: Some(version),
    };
    let function = FunctionProto {
        name: Some("F".into()),
        domain: Some("own".into()),
        input: ["a", "c", "most"].map(String::from).into(),
        output: vec!["o".into()],
        node: vec![chosen],
        opset_import: vec![opset("", 17)],
        ..Default::default()
    };
    let mut call = node("F", &["x", "c"], "y");
    call.domain = Some("own".into());
    let ports =
        |names: &[&str]| -> Vec<ValueInfoProto> { names.iter().map(|name| port(name)).collect() };
    let graph = GraphProto {
        node: vec![call],
        input: ports(&["x", "c"]),
        output: ports(&["y"]),
        ..Default::default()
    };
    let proto = ModelProto {
        opset_import: vec![opset("", 17), opset("own", 1)],
        functions: vec![function],
        ..model(graph)
    };
    let body = crate::from_bytes(proto.encode_to_vec()).unwrap();
    let session = Session::builder(&Device::cpu().unwrap()).build(body).unwrap();
    for (condition, expected) in [(true, 2.5), (false, -2.5)] {
        let condition = Array::new(DType::Bool, &[], vec![u8::from(condition)]).unwrap();
        let outputs = session.run([Array::scalar(2.5f32), condition]).unwrap();
        assert_eq!(outputs.read::<f32>("y").unwrap()[..], [expected]);
    }
}
