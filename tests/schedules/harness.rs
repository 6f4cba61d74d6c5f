//! Runs every scenario with many seeds.
//!
//! In a build with `--cfg schedule` (`scripts/schedules.sh`) threads lose time at locks and atomics as the seed
//! says. In other builds the scenarios are plain tests, with a few seeds.
//!
//! | variable | what it sets | default |
//! |---|---|---|
//! | `MILLSTREAM_SEEDS` | seeds per scenario | 100 with the cfg, 3 without |
//! | `MILLSTREAM_FIRST_SEED` | the first of them | 0 |
//! | `MILLSTREAM_SCENARIO` | only scenarios whose name contains this | all |
//! | `MILLSTREAM_SEED` | only this seed, again and again | |
//! | `MILLSTREAM_REPEAT` | how often | 500 |
//!
//! Devices live as long as their process, so seeds run in child processes, some in each. That also tells which
//! seed a crash belongs to.

use std::io::Write;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::runtime::sync::schedule;
use crate::scenarios::SCENARIOS;
use crate::scene::Scene;

/// After this long something hangs. No seed that passes takes a hundredth of it.
const HANG: Duration = Duration::from_secs(60);

/// `DEVICE SCENARIO FIRST COUNT STEP` for a child.
const CHILD: &str = "MILLSTREAM_SCHEDULES_CHILD";

/// What runs the scenarios.
pub struct Host<'a> {
    /// The device's name.
    pub device: &'static str,
    /// How to start this program.
    pub command: &'static str,
    /// Seeds per child.
    pub chunk: u64,
    /// What children find in their environment.
    pub environment: &'a [(&'static str, String)],
}

/// Some seeds of one scenario.
struct Chunk {
    scenario: &'static str,
    first: u64,
    count: u64,
    /// 0 for one seed again and again.
    step: u64,
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is {value}, which is not a number")))
}

/// Runs a child's seeds if this is a child.
pub fn child() -> Option<ExitCode> {
    let task = std::env::var(CHILD).ok()?;
    let words: Vec<_> = task.split(' ').collect();
    let &[device, name, first, count, step] = words.as_slice() else { panic!("{CHILD} is {task}") };
    let [first, count, step] = [first, count, step].map(|word| word.parse::<u64>().unwrap());
    let (_, scenario) = SCENARIOS.iter().find(|(other, _)| *other == name).expect("a scenario");
    let begun = AtomicU64::new(0);
    let end = AtomicU64::new(u64::MAX);
    // A panic in a thread whose others wait for it would hang: say it, and end.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(101);
    }));
    std::thread::scope(|scope| {
        scope.spawn(|| watch(&begun, &end));
        for index in 0..count {
            begun.store(index + 1, Ordering::Relaxed);
            let seed = first + index * step;
            println!("seed {seed}");
            let _ = std::io::stdout().flush();
            schedule::begin(seed);
            // Not on the main thread, which has a stream of its own.
            let scene = Scene::new(device, seed);
            let run = || scenario(&scene);
            std::thread::scope(|scope| {
                let thread = std::thread::Builder::new().name("director".into());
                thread.spawn_scoped(scope, run).expect("a thread").join().expect("the scenario");
            });
        }
        end.store(0, Ordering::Relaxed);
    });
    Some(ExitCode::SUCCESS)
}

/// Ends a process in which nothing happens any more.
fn watch(begun: &AtomicU64, end: &AtomicU64) {
    let (mut last, mut since) = (0, Instant::now());
    while end.load(Ordering::Relaxed) != 0 {
        let now = begun.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > HANG {
            println!("hangs for {HANG:?}; where threads were last:");
            schedule::threads().iter().for_each(|thread| println!("  {thread}"));
            std::process::exit(102);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs scenarios and seeds as the environment says.
pub fn main(host: &Host<'_>) -> ExitCode {
    if let Some(code) = child() {
        return code;
    }
    // Test programs are given a filter and options.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let only = std::env::var("MILLSTREAM_SCENARIO").ok().or(filter).unwrap_or_default();
    let one = number("MILLSTREAM_SEED");
    let usual = if schedule::ENABLED { 100 } else { 3 };
    let (first, count, step) = match one {
        Some(seed) => (seed, number("MILLSTREAM_REPEAT").unwrap_or(500), 0),
        None => {
            let first = number("MILLSTREAM_FIRST_SEED").unwrap_or(0);
            (first, number("MILLSTREAM_SEEDS").unwrap_or(usual), 1)
        }
    };
    let names = SCENARIOS.iter().map(|(name, _)| *name).filter(|name| name.contains(&only));
    let names: Vec<_> = names.collect();
    let starts: Vec<u64> = (0..count).step_by(host.chunk as usize).collect();
    // All scenarios have had some seeds before any has had all.
    let chunks: Vec<Chunk> = starts
        .iter()
        .flat_map(|&start| {
            names.iter().map(move |&scenario| Chunk {
                scenario,
                first: first + start * step,
                count: host.chunk.min(count - start),
                step,
            })
        })
        .collect();
    println!("\n{}: {} scenarios, {count} seeds from {first} on", host.device, names.len());
    let started = Instant::now();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // Threads that lose time leave the cores to others.
    let jobs = 3 * std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(report) = run_chunk(host, chunk) {
                        println!("{report}");
                        failures.lock().unwrap().push(chunk.scenario);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    for name in &names {
        let failed = failures.iter().filter(|other| *other == name).count();
        let result = if failed == 0 { "ok".into() } else { format!("FAILED ({failed} times)") };
        println!("test {}::{name} ... {result}", host.device);
    }
    println!("\ntest result: {} failed; {:.1?}\n", failures.len(), started.elapsed());
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a child; what it said if it failed.
fn run_chunk(host: &Host<'_>, chunk: &Chunk) -> Result<(), String> {
    let Chunk { scenario, first, count, step } = chunk;
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.env(CHILD, format!("{} {scenario} {first} {count} {step}", host.device));
    child.envs(host.environment.iter().map(|(key, value)| (key, value)));
    let output = child.stdin(Stdio::null()).output().expect("this program starts again");
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let seed = said.lines().rev().find_map(|line| line.strip_prefix("seed ")).unwrap_or("?");
    let rest: Vec<_> = said.lines().filter(|line| !line.starts_with("seed ")).collect();
    let flags = if schedule::ENABLED { "RUSTFLAGS=\"--cfg schedule\" " } else { "" };
    Err(format!(
        "FAILED: {}, scenario {scenario}, seed {seed}: {}\n{}\n{}\nto repeat: \
         {flags}MILLSTREAM_SCENARIO={scenario} MILLSTREAM_SEED={seed} {}\n",
        host.device,
        output.status,
        String::from_utf8_lossy(&output.stderr),
        rest.join("\n"),
        host.command,
    ))
}
