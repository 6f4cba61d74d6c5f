use super::*;

#[test]
fn quirks_apply_to_families_and_versions_that_the_table_names() {
    let version = |major, minor| Version { major, minor };
    let serial = Quirks { serial_encoding: true };
    let table = [(7..=8, version(14, 1), version(14, 4), serial)];
    let features = |family, major, minor| Features {
        version: version(major, minor),
        family,
        residency: false,
        matrices: true,
        archives: true,
        indirect: true,
    };
    assert_eq!(Quirks::from_table(&features(7, 14, 1), &table), serial);
    assert_eq!(Quirks::from_table(&features(8, 14, 4), &table), serial);
    for (family, major, minor) in [(9, 14, 2), (7, 14, 0), (7, 14, 5), (7, 15, 2)] {
        assert_eq!(Quirks::from_table(&features(family, major, minor), &table), Quirks::default());
    }
    assert_eq!(Quirks::of(&features(7, 14, 1)), Quirks::default());
}

#[test]
fn cores_follow_from_the_last_letter_of_an_architecture() {
    let cores = ["applegpu_g13g", "applegpu_g16s", "applegpu_g14c", "applegpu_g13d", "", "other"];
    assert_eq!(cores.map(cores_of_architecture), [7, 14, 24, 48, 7, 7]);
}
