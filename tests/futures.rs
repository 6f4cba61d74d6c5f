//! Results that can be awaited, on the CPU device: tasks of an executor with few threads.

use std::sync::Arc;
use std::time::Duration;

use millstream::nn::{Linear, Module, ReLU, Sequential, Weights};
use millstream::{Command, DType, Device, Error, Layout, Stream, Tensor};

/// Only a test that would hang sees it.
const HANG: Duration = Duration::from_secs(120);

fn device() -> Device {
    Device::builder("cpu").wait_timeout(HANG).open().unwrap()
}

fn model(device: &Device) -> Sequential {
    let weights = Weights::random(1, DType::F32, device);
    let load = |weights: &Weights| {
        Ok(Sequential::new()
            .push(Linear::new(32, 128, true, &weights.child(0))?)
            .push(ReLU)
            .push(Linear::new(128, 128, true, &weights.child(2))?)
            .push(ReLU)
            .push(Linear::new(128, 8, true, &weights.child(4))?))
    };
    weights.load(load).unwrap()
}

fn runtime(threads: usize) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads).enable_time().build().unwrap()
}

fn input(seed: u64, device: &Device) -> millstream::Result<Tensor> {
    Tensor::randn(&[1, 32], seed, DType::F32, device)
}

/// Far more calls than may be in flight, from two threads: all right, and none of the two ever waits.
#[test]
fn tasks_get_their_answers_and_hold_no_thread() {
    let device = device();
    let model = Arc::new(model(&device));
    let blocks = device.counters().blocks;
    let call = |seed: u64| {
        let model = Arc::clone(&model);
        async move {
            device.ready().await?;
            let output = model.forward(&input(seed, &device)?)?;
            output.to_vec_async::<f32>().await
        }
    };
    let answers: Vec<_> = runtime(2).block_on(async {
        let tasks: Vec<_> = (0..1000).map(|seed| tokio::spawn(call(seed))).collect();
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.unwrap().unwrap());
        }
        answers
    });
    assert_eq!(device.counters().blocks, blocks, "no thread was held");
    for (seed, answer) in answers.into_iter().enumerate() {
        let expected = model.forward(&input(seed as u64, &device).unwrap()).unwrap();
        assert_eq!(answer, expected.to_vec::<f32>().unwrap());
    }
}

#[test]
fn a_task_gets_its_own_fault_and_nobody_elses() {
    let device = device();
    let call = |seed: i64| async move {
        device.ready().await?;
        let table = Tensor::ones(&[16, 4], DType::F32, &device)?;
        let place = Tensor::from_slice(&[seed], &[1], &device)?;
        table.index_select(0, &place)?.to_vec_async::<f32>().await
    };
    let answers: Vec<_> = runtime(2).block_on(async {
        let tasks: Vec<_> = (0..64).map(|seed| tokio::spawn(call(seed))).collect();
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.unwrap());
        }
        answers
    });
    for (seed, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(values) => assert!(seed < 16 && values == [1.0; 4], "{seed}"),
            Err(error) => assert!(seed >= 16 && error.to_string().contains("index"), "{error}"),
        }
    }
}

#[test]
fn a_stream_of_a_tasks_own_is_awaited_too() {
    let device = device();
    let stream = Stream::new(&device).unwrap();
    // So much that the task waits before all is through, in some of the rounds at least.
    let layout = Layout::contiguous(DType::F32, &[1 << 18]).unwrap();
    for round in 0..10u8 {
        let answer = runtime(1).block_on(async {
            stream.ready().await?;
            let buffer = stream.allocate(layout.dense_bytes())?;
            let value = f32::from(round);
            let point = stream.record(Command::fill(buffer.operand(layout), value)?)?;
            point.await?;
            stream.download(buffer.operand(layout))?.await?.read::<f32>()
        });
        assert_eq!(answer.unwrap(), vec![f32::from(round); 1 << 18]);
    }
}

/// A task beside threads that wait for the same streams.
#[test]
fn threads_and_tasks_wait_beside_each_other() {
    let device = device();
    let model = Arc::new(model(&device));
    let runtime = runtime(2);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let model = &model;
            scope.spawn(move || {
                for call in 0..50 {
                    let seed = thread * 1000 + call;
                    let output = model.forward(&input(seed, &device).unwrap()).unwrap();
                    let again = model.forward(&input(seed, &device).unwrap()).unwrap();
                    assert_eq!(output.to_vec::<f32>().unwrap(), again.to_vec::<f32>().unwrap());
                }
            });
        }
        let tasks: Vec<_> = (0..100)
            .map(|seed| {
                let model = Arc::clone(&model);
                runtime.spawn(async move {
                    device.ready().await?;
                    let output = model.forward(&input(seed, &device)?)?;
                    let first = output.to_vec_async::<f32>();
                    let second = output.to_vec_async::<f32>();
                    Ok::<_, millstream::Error>((first.await?, second.await?))
                })
            })
            .collect();
        for task in tasks {
            let (first, second) = runtime.block_on(task).unwrap().unwrap();
            assert_eq!(first, second);
        }
    });
}

/// What is canceled by a timeout of the executor leaves the device as it was.
#[test]
fn a_timeout_of_the_executor_ends_the_waiting_only() {
    let device = device();
    let model = model(&device);
    let in_use = device.memory().in_use;
    let answer = runtime(1).block_on(async {
        let output = model.forward(&input(1, &device)?)?;
        let expected = output.to_vec_async::<f32>();
        for _ in 0..100 {
            // Mostly over before the device is through.
            let _ = tokio::time::timeout(Duration::ZERO, output.to_vec_async::<f32>()).await;
        }
        expected.await
    });
    let expected = model.forward(&input(1, &device).unwrap()).unwrap();
    assert_eq!(answer.unwrap(), expected.to_vec::<f32>().unwrap());
    drop(expected);
    device.synchronize().unwrap();
    assert_eq!(device.memory().in_use, in_use);
    device.close().unwrap();
    let gone = runtime(1).block_on(device.ready());
    assert!(matches!(gone, Err(Error::DeviceClosed { .. })));
}
