//! Tensors and models that threads share.

use std::sync::mpsc;
use std::thread;

use millstream_core::{DType, Device};
use millstream_cpu as _;
use millstream_nn::{
    AttentionMask, LSTM, Linear, Module, RecurrentOptions, Result, Sequential, Tensor,
    TransformerEncoder, TransformerEncoderLayer, TransformerOptions, Weights,
};

const THREADS: u64 = 8;
const CALLS: u64 = 6;

fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

fn model(device: &Device) -> Sequential {
    let options =
        TransformerOptions { dim_feedforward: 96, batch_first: true, ..Default::default() };
    Weights::random(5, DType::F32, device)
        .load(|weights| {
            let recurrent = RecurrentOptions { batch_first: true, ..Default::default() };
            Ok(Sequential::new()
                .push(TransformerEncoder::new(48, 4, 2, true, options, &weights.child("0"))?)
                .push(LSTM::new(48, 24, recurrent, &weights.child("1"))?)
                .push(Linear::new(24, 10, true, &weights.child("2"))?))
        })
        .unwrap()
}

#[test]
fn a_model_gives_every_thread_the_bits_it_would_get_alone() {
    let device = Device::cpu().unwrap();
    let model = model(&device);
    let call = |seed: u64| -> Result<Vec<u32>> {
        let shape = [1 + (seed % 3) as usize, 5 + (seed % 7) as usize, 48];
        Ok(bits(&model.forward(&Tensor::randn(&shape, seed, DType::F32, &device)?)?))
    };
    let alone: Vec<_> = (0..THREADS * CALLS).map(|seed| call(seed).unwrap()).collect();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (alone, call) = (&alone, &call);
            scope.spawn(move || {
                for seed in thread * CALLS..(thread + 1) * CALLS {
                    assert_eq!(call(seed).unwrap(), alone[seed as usize]);
                }
            });
        }
    });
}

#[test]
fn unfinished_tensors_go_from_thread_to_thread() {
    let device = Device::cpu().unwrap();
    let work = |tensor: &Tensor| tensor.matmul(tensor)?.tanh()? + 0.5;
    let start = Tensor::randn(&[48, 48], 1, DType::F32, &device).unwrap();
    let mut expected = start.clone();
    for _ in 0..THREADS {
        expected = work(&expected).unwrap();
    }
    let expected = bits(&expected);
    for _ in 0..10 {
        let (send, mut receive) = mpsc::channel::<Tensor>();
        send.send(start.clone()).unwrap();
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (next, last) = mpsc::channel();
                let from = std::mem::replace(&mut receive, last);
                // Nobody waits: each stream waits for the one before.
                thread::spawn(move || next.send(work(&from.recv().unwrap()).unwrap()).unwrap())
            })
            .collect();
        assert_eq!(bits(&receive.recv().unwrap()), expected);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn many_threads_read_one_tensor_that_is_not_finished() {
    let device = Device::cpu().unwrap();
    let wide = Tensor::randn(&[64, 64], 3, DType::F32, &device).unwrap().softmax(-1).unwrap();
    let rows: Vec<Vec<u32>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS as usize)
            .map(|row| {
                let wide = &wide;
                scope.spawn(move || bits(&wide.select(0, row).unwrap().exp().unwrap()))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let all = bits(&wide.exp().unwrap());
    assert_eq!(rows.concat(), all[..64 * THREADS as usize]);
}

#[test]
fn an_encoder_layer_is_seven_commands() {
    let device = Device::builder("cpu").open().unwrap();
    for norm_first in [false, true] {
        for batch_first in [false, true] {
            let options = TransformerOptions {
                dim_feedforward: 64,
                batch_first,
                norm_first,
                ..Default::default()
            };
            let layer = Weights::random(1, DType::F32, &device)
                .load(|weights| TransformerEncoderLayer::new(32, 4, options, weights))
                .unwrap();
            let input = Tensor::randn(&[6, 6, 32], 2, DType::F32, &device).unwrap();
            let before = device.counters().commands;
            layer.forward_masked(&input, &AttentionMask::causal()).unwrap();
            assert_eq!(device.counters().commands - before, 7);
        }
    }
}
