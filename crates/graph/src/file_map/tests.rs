use std::io::Write;

use super::*;

fn file_of(name: &str, bytes: &[u8]) -> File {
    let path = std::env::temp_dir().join(format!("millstream-{name}-{}", std::process::id()));
    File::create(&path).unwrap().write_all(bytes).unwrap();
    let file = File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

/// How many KiB of a map are in memory.
#[cfg(target_os = "linux")]
fn resident(bytes: &[u8]) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let head = format!("{:x}-", bytes.as_ptr() as usize);
    let mut lines = maps.lines().skip_while(|line| !line.starts_with(&head));
    let line = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse().unwrap()
}

#[test]
fn pages_that_were_released_are_read_again() {
    let contents: Vec<u8> = (0..4usize << 20).map(|at| (at / 7) as u8).collect();
    let bytes = map_file(&file_of("pages", &contents)).unwrap();
    assert!(bytes[..] == contents[..]);
    #[cfg(target_os = "linux")]
    assert!(resident(&bytes) >= 4 << 10);
    release(&bytes);
    #[cfg(target_os = "linux")]
    assert_eq!(resident(&bytes), 0);
    assert!(bytes[..] == contents[..]);
    // A part of it, which does not begin where a page does.
    release(&bytes[5000..3 << 20]);
    assert!(bytes[..] == contents[..]);
}

#[test]
fn other_bytes_stay_what_they_are() {
    let bytes = map_file(&file_of("others", &[7; 9000])).unwrap();
    let own: Vec<u8> = (0..1usize << 20).map(|at| at as u8).collect();
    let before = own.clone();
    release(&own);
    release(&[]);
    assert!(own == before);
    drop(bytes);
    // Maps that are gone are nobody's.
    release(&own);
    assert!(own == before);
    assert!(map_file(&file_of("empty", &[])).unwrap().is_empty());
}
