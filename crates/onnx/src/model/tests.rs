use super::*;

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
