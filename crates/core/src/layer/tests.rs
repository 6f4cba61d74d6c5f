use super::*;

#[test]
fn equal_names_are_stored_once() {
    let text = String::from("a.layer");
    let (one, other) = (LayerName::new(&text), LayerName::new("a.layer"));
    assert_eq!(one, other);
    assert!(std::ptr::eq(one.as_str(), other.as_str()));
    assert_ne!(one, LayerName::new("another.layer"));
    assert_eq!(size_of::<Option<LayerName>>(), size_of::<usize>());
}

#[test]
fn long_names_are_cut_between_characters() {
    let name = LayerName::new(&"é".repeat(1000));
    assert_eq!(name.as_str(), "é".repeat(LONGEST_NAME / 2));
    let odd = LayerName::new(&format!("a{}", "é".repeat(1000)));
    assert_eq!(odd.as_str().len(), LONGEST_NAME - 1);
}

#[test]
fn the_innermost_layer_is_the_current_one_and_belongs_to_its_thread() {
    assert_eq!(LayerName::current(), None);
    let (outer, inner) = (LayerName::new("outer"), LayerName::new("outer.inner"));
    let first = outer.enter();
    {
        let _second = inner.enter();
        assert_eq!(LayerName::current(), Some(inner));
        let elsewhere = std::thread::spawn(LayerName::current);
        assert_eq!(elsewhere.join().unwrap(), None);
    }
    assert_eq!(LayerName::current(), Some(outer));
    drop(first);
    assert_eq!(LayerName::current(), None);
}

#[test]
fn a_panic_leaves_the_layer() {
    let layer = LayerName::new("panicking");
    let caught = std::panic::catch_unwind(|| {
        let _scope = layer.enter();
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(caught.is_err());
    assert_eq!(LayerName::current(), None);
}

#[test]
fn names_are_bounded() {
    // Kept for the life of the process, as the names in it are.
    static OWN: Mutex<Option<Names>> = Mutex::new(None);
    let mut own = OWN.lock().unwrap();
    let names = own.get_or_insert_default();
    let made = ["a", "b", "c", "a"].map(|name| LayerName::intern(names, name, 2));
    assert_eq!(made.map(LayerName::as_str), ["a", "b", *OVERFLOW, "a"]);
    assert_eq!(names.len(), 2);
}
