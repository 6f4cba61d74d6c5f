use millstream_core::Device;

#[test]
fn without_a_driver_opening_and_listing_say_what_is_missing() {
    let listed = Device::list();
    let (_, list) = listed.iter().find(|(name, _)| *name == "cuda").unwrap();
    match list {
        // With a GPU the tests of the root crate see to the rest.
        Ok(list) => assert!(list.iter().all(|info| info.name.starts_with("cuda:"))),
        Err(listed) => {
            let opened = Device::open("cuda").unwrap_err();
            assert_eq!(opened.to_string(), listed.to_string());
            assert!(opened.to_string().starts_with("device cuda cannot be opened: "));
            assert!(opened.to_string().len() > 60, "{opened}");
        }
    }
}
