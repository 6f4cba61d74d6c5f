use super::*;
use crate::proto::OperatorSetIdProto;

#[test]
fn importing_ends_at_its_deadline() {
    let node = NodeProto {
        op_type: Some("Relu".into()),
        input: vec!["x".into()],
        output: vec!["y".into()],
        ..Default::default()
    };
    let port = |name: &str| crate::proto::ValueInfoProto {
        name: Some(name.to_owned()),
        ..Default::default()
    };
    let graph = GraphProto {
        node: vec![node],
        input: vec![port("x")],
        output: vec![port("y")],
        ..Default::default()
    };
    let proto = ModelProto {
        ir_version: Some(8),
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(17) }],
        graph: Some(graph),
        ..Default::default()
    };
    let mut model = Model::new(&proto, ExternalFiles::none()).unwrap();
    assert!(model.import().is_ok());
    let Some(past) = Instant::now().checked_sub(Duration::from_secs(1)) else { return };
    model.deadline = past;
    let error = model.import().unwrap_err().to_string();
    assert!(error.contains("importing takes longer than 120s"), "{error}");
}
