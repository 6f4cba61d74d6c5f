//! A session that answers queries which come through a pipe, for `run.py`, which drives it with MLPerf's LoadGen.
//!
//! `loadgen-session MODEL.onnx ROWxCOLUMNS SAMPLES THREADS`: the model takes one input of `f32` of that shape. On standard input a
//! query is 16 bytes: its number, and that of its sample (`u64` each, in the machine's order of bytes). On standard output an answer
//! is the number of its query, 8 bytes; a byte of zero stands before the first one, when the session is ready. Threads submit
//! the queries to one session, and poll. The program ends when its input does, says on standard error what the session did, and
//! fails if an answer was not the one that its sample has in a call by itself.

use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, TryRecvError};

use millstream::graph::{Array, Batching, Call, Submitted};
use millstream::{Device, Error, Result, Session};

/// Calls that a thread has open at most; further queries wait in its channel.
const OPEN: usize = 64;

/// A query, and its sample.
type Query = (u64, usize);

struct Samples {
    inputs: Vec<Array>,
    /// The answers of calls by themselves.
    expected: Vec<Vec<u8>>,
}

impl Samples {
    fn new(path: &str, device: &Device, shape: &[usize], count: usize) -> Result<Self> {
        let alone = Session::builder(device).batching(Batching::off()).open(path)?;
        let elements = shape.iter().product();
        let (mut inputs, mut expected) = (Vec::new(), Vec::new());
        for sample in 0..count {
            // Numbers between -1 and 1 that no other sample has.
            let number = |at: usize| ((at * 37 + sample * 101) % 1009) as f32 / 504.5 - 1.0;
            let numbers: Vec<f32> = (0..elements).map(number).collect();
            let input = Array::from_slice(&numbers, shape)?;
            expected.push(first_output(&alone.run([input.clone()])?)?);
            inputs.push(input);
        }
        Ok(Self { inputs, expected })
    }
}

fn first_output(outputs: &millstream::graph::Outputs) -> Result<Vec<u8>> {
    match outputs.host_bytes(0) {
        Some(bytes) => Ok(bytes.to_vec()),
        None => outputs.tensor(&outputs.names()[0])?.to_bytes(),
    }
}

/// Submits queries and polls them until there are no more. Says how many were answered wrongly.
fn answer(session: &Session, samples: &Samples, queries: &Receiver<Query>) -> Result<u64> {
    let mut open: Vec<(Query, Submitted)> = Vec::new();
    let (mut done, mut wrong) = (Vec::new(), 0);
    loop {
        while open.len() < OPEN {
            // With nothing to poll, the thread sleeps.
            let next = match open.is_empty() {
                true => queries.recv().map_err(|_| TryRecvError::Disconnected),
                false => queries.try_recv(),
            };
            match next {
                Ok(query) => {
                    let input = samples.inputs[query.1 % samples.inputs.len()].clone();
                    open.push((query, session.submit([input], &Call::new())));
                }
                Err(TryRecvError::Disconnected) if open.is_empty() => return Ok(wrong),
                Err(_) => break,
            }
        }
        let mut failed = None;
        open.retain_mut(|((number, sample), call)| {
            let Some(result) = call.poll() else { return true };
            match result.and_then(|outputs| first_output(&outputs)) {
                Ok(found) => {
                    let expected = &samples.expected[*sample % samples.expected.len()];
                    wrong += u64::from(found != *expected);
                    done.extend(number.to_ne_bytes());
                }
                Err(error) => failed = Some(error),
            }
            false
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if done.is_empty() {
            std::thread::yield_now();
            continue;
        }
        write(&done)?;
        done.clear();
    }
}

/// Writes to standard output at once, and nobody between.
fn write(bytes: &[u8]) -> Result<()> {
    let mut output = std::io::stdout().lock();
    let written = output.write_all(bytes).and_then(|()| output.flush());
    written.map_err(|error| invalid(&format!("standard output: {error}")))
}

fn invalid(reason: &str) -> Error {
    Error::Invalid { op: "loadgen-session", reason: reason.into() }
}

fn main() -> Result<()> {
    let usage = || invalid("usage: loadgen-session MODEL.onnx ROWxCOLUMNS SAMPLES THREADS");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, shape, samples, threads] = &arguments[..] else { return Err(usage()) };
    let number = |text: &str| text.parse().ok().filter(|&number| number > 0).ok_or_else(usage);
    let shape: Vec<usize> = shape.split('x').map(number).collect::<Result<_>>()?;
    let device = Device::cpu()?;
    let samples = Samples::new(path, &device, &shape, number(samples)?)?;
    let batching = Batching::new().wait_when_full();
    let session = Session::builder(&device).batching(batching).open(path)?;
    session.warm_up_with([samples.inputs[0].clone()])?;
    write(&[0])?;

    let wrong = Mutex::new(0);
    std::thread::scope(|scope| -> Result<()> {
        let (session, samples, wrong) = (&session, &samples, &wrong);
        let (mut queues, mut callers) = (Vec::new(), Vec::new());
        for _ in 0..number(threads)? {
            let (queue, queries) = mpsc::channel();
            queues.push(queue);
            callers.push(scope.spawn(move || -> Result<()> {
                let own = answer(session, samples, &queries)?;
                *wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += own;
                Ok(())
            }));
        }
        let mut input = std::io::BufReader::new(std::io::stdin().lock());
        let mut bytes = [0; 16];
        for queue in queues.iter().cycle() {
            // The other side closes the pipe when it has had all answers.
            if input.read_exact(&mut bytes).is_err() {
                break;
            }
            let (query, sample) = bytes.split_at(8);
            let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
            let sample = usize::try_from(number(sample)).unwrap_or(0);
            // A thread that has failed says so itself.
            if queue.send((number(query), sample)).is_err() {
                break;
            }
        }
        drop(queues);
        callers.into_iter().try_for_each(|caller| {
            caller.join().unwrap_or_else(|_| Err(invalid("a thread panicked")))
        })
    })?;
    eprintln!("session: {}", session.batching_stats());
    match wrong.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        0 => Ok(()),
        wrong => Err(invalid(&format!("{wrong} answers are not those of calls by themselves"))),
    }
}
