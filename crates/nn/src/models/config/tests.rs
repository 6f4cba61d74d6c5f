use serde_json::json;

use super::*;

fn config(value: Value) -> Config {
    let Value::Object(values) = value else { panic!("settings are an object") };
    Config { path: "config.json".into(), values }
}

#[test]
fn sizes_and_layers_are_bounded() {
    let sizes = config(json!({
        "zero": 0, "one": 1, "largest": 1 << 24, "larger": (1 << 24) + 1,
        "most": 1024, "more": 1025,
    }));
    assert_eq!(sizes.size("one").unwrap(), 1);
    assert_eq!(sizes.size("largest").unwrap(), 1 << 24);
    assert!(sizes.size("zero").is_err() && sizes.size("larger").is_err());
    assert_eq!(sizes.layers("most").unwrap(), 1024);
    assert!(sizes.layers("more").is_err());
}

#[test]
fn files_above_their_bound_are_refused_before_they_are_parsed() {
    let name = format!("millstream-long-{}.json", std::process::id());
    let path = std::env::temp_dir().join(name);
    // Nothing but zeros, which take no room on disk and are no JSON.
    let refused = |bytes: u64, read: &dyn Fn(&Path) -> Option<Error>| {
        File::create(&path).and_then(|file| file.set_len(bytes)).unwrap();
        read(&path).unwrap().to_string().contains("more than")
    };
    let settings = |path: &Path| Config::open(path).err();
    assert!(refused((1 << 20) + 1, &settings) && !refused(1 << 20, &settings));
    let any = |path: &Path| read(path).err();
    assert!(refused((64 << 20) + 1, &any) && !refused(2 << 20, &any));
    std::fs::remove_file(&path).unwrap();
}
