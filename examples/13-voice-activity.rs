//! Says where somebody speaks in recordings, each of which is a stream of audio with a state and a thread of its own.
//!
//!     cargo run --release --example 13-voice-activity silero_vad.onnx a.wav b.wav …
//!
//! The model is Silero VAD of version 5 or later (`pip install silero-vad` brings it along); recordings are WAV files of 16,000
//! samples a second, one channel, 16 bits.

use std::path::Path;

use millstream::{DType, Device, Error, Result, Session, Tensor};

const RATE: usize = 16_000;
/// Samples of a call, behind the last ones of the call before.
const WINDOW: usize = 512;
const CONTEXT: usize = 64;
/// From which probability on it is speech.
const THRESHOLD: f32 = 0.5;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(model) = arguments.next() else {
        println!("needs a model and recordings: silero_vad.onnx a.wav b.wav");
        return Ok(());
    };
    let session = Session::open(model, &Device::best()?)?;
    let recordings: Vec<String> = arguments.collect();
    std::thread::scope(|scope| {
        let listen = |path| Ok((path, speech(&session, &samples(path)?)?));
        let threads: Vec<_> =
            recordings.iter().map(|path| scope.spawn(move || listen(path))).collect();
        for thread in threads {
            let (path, stretches) = thread.join().expect("a thread panicked")?;
            println!("{path}");
            for (start, end) in stretches {
                let seconds = |window: usize| (window * WINDOW) as f32 / RATE as f32;
                println!("  {:6.2} s to {:6.2} s", seconds(start), seconds(end));
            }
        }
        Ok(())
    })
}

/// The stretches of speech, as numbers of windows.
fn speech(session: &Session, samples: &[f32]) -> Result<Vec<(usize, usize)>> {
    let device = session.device();
    let rate = Tensor::from_slice(&[RATE as i64], &[], &device)?;
    let mut state = Tensor::zeros(&[2, 1, 128], DType::F32, &device)?;
    let mut heard = [0f32; CONTEXT + WINDOW];
    let mut stretches: Vec<(usize, usize)> = Vec::new();
    for (at, window) in samples.chunks_exact(WINDOW).enumerate() {
        heard.copy_within(WINDOW.., 0);
        heard[CONTEXT..].copy_from_slice(window);
        let input = Tensor::from_slice(&heard, &[1, CONTEXT + WINDOW], &device)?;
        let outputs = session.run([("input", &input), ("state", &state), ("sr", &rate)])?;
        // The state stays on the device: nobody waits for it here.
        state = outputs.tensor("stateN")?.clone();
        if outputs.tensor("output")?.to_vec::<f32>()?[0] < THRESHOLD {
            continue;
        }
        match stretches.last_mut() {
            Some((_, end)) if *end == at => *end = at + 1,
            _ => stretches.push((at, at + 1)),
        }
    }
    Ok(stretches)
}

/// The samples of a WAV file.
fn samples(path: impl AsRef<Path>) -> Result<Vec<f32>> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|error| Error::read(path, error))?;
    let found = chunk(&bytes, b"fmt ").zip(chunk(&bytes, b"data"));
    // Plain numbers, one channel, the rate, and 16 bits each.
    let wanted = [&[1, 0, 1, 0][..], &(RATE as u32).to_le_bytes()].concat();
    match found {
        Some((format, data)) if format.starts_with(&wanted) && format.get(14) == Some(&16) => {
            let sample = |two: &[u8]| f32::from(i16::from_le_bytes([two[0], two[1]])) / 32768.0;
            Ok(data.chunks_exact(2).map(sample).collect())
        }
        _ => Err(Error::Format {
            path: path.display().to_string(),
            reason: format!("not a WAV file of {RATE} samples a second, one channel, 16 bits"),
        }),
    }
}

/// The contents of a part of a WAV file.
fn chunk<'a>(file: &'a [u8], name: &[u8; 4]) -> Option<&'a [u8]> {
    let mut rest = file.strip_prefix(b"RIFF")?.get(8..)?;
    loop {
        let length: [u8; 4] = rest.get(4..8)?.try_into().ok()?;
        let length = u32::from_le_bytes(length) as usize;
        let contents = rest.get(8..)?;
        if rest.starts_with(name) {
            // Recorders that were stopped leave a length that is too large.
            return Some(&contents[..length.min(contents.len())]);
        }
        // Parts begin at even places.
        rest = contents.get(length.next_multiple_of(2)..)?;
    }
}
