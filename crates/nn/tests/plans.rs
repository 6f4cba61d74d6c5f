//! Plans of models and of random code: the same bits as the code itself, from any number of threads.

use millstream_core::{DType, Device, Stream};
use millstream_cpu as _;
use millstream_nn::{
    Conv1d, ConvOptions, Error, GELU, LSTM, LayerNorm, Linear, Module, Plan, ReLU,
    RecurrentOptions, Result, Sequential, Tensor, TransformerEncoderLayer, TransformerOptions,
    Weights,
};
use proptest::prelude::*;

fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

fn encoder(weights: &Weights) -> Result<Sequential> {
    let options =
        TransformerOptions { dim_feedforward: 96, batch_first: true, ..Default::default() };
    Ok(Sequential::new().push(TransformerEncoderLayer::new(48, 4, options, weights)?))
}

fn mixed(weights: &Weights) -> Result<Sequential> {
    let recurrent = RecurrentOptions { batch_first: true, ..Default::default() };
    Ok(Sequential::new()
        .push(LSTM::new(48, 24, recurrent, &weights.child("0"))?)
        .push(LayerNorm::new(&[24], Default::default(), &weights.child("1"))?)
        .push(Linear::new(24, 48, true, &weights.child("2"))?)
        .push(GELU::default())
        .push(Linear::new(48, 10, false, &weights.child("3"))?))
}

fn convolutions(weights: &Weights) -> Result<Sequential> {
    let options = ConvOptions { padding: [1], ..Default::default() };
    Ok(Sequential::new()
        .push(Conv1d::new(5, 16, [3], options, &weights.child("0"))?)
        .push(ReLU)
        .push(Conv1d::new(16, 7, [3], options, &weights.child("2"))?))
}

#[test]
fn plans_of_models_have_the_bits_of_the_models() {
    let device = Device::cpu().unwrap();
    type Build = fn(&Weights) -> Result<Sequential>;
    let models: [(Build, &[usize]); 3] =
        [(encoder, &[2, 7, 48]), (mixed, &[3, 6, 48]), (convolutions, &[2, 5, 48])];
    for (build, shape) in models {
        let model = Weights::random(5, DType::F32, &device).load(build).unwrap();
        let plan = Plan::of_module(&model, shape, DType::F32, &device).unwrap();
        for seed in 0..5 {
            let input = Tensor::randn(shape, seed, DType::F32, &device).unwrap();
            let expected = bits(&model.forward(&input).unwrap());
            assert_eq!(bits(&plan.forward(&input).unwrap()), expected, "{plan:?}, {seed}");
        }
    }
}

#[test]
fn constants_views_and_several_results_are_traced() {
    let device = Device::cpu().unwrap();
    let work = |inputs: &[Tensor]| -> Result<Vec<Tensor>> {
        let (a, b) = (&inputs[0], &inputs[1]);
        let ramp = Tensor::arange(0.0, 6.0, 1.0, DType::F32, &device)?.reshape(&[2, 3])?;
        let ramp = (&ramp * 2.0)?;
        let sum = (&(a + &ramp)? * b)?;
        let joined = Tensor::cat(&[&sum, a, &sum.t()?.contiguous()?.reshape(&[2, 3])?], 1)?;
        // A view, a value twice, an input, a constant.
        Ok(vec![joined.t()?, sum.clone(), sum, a.clone(), ramp, joined.narrow(1, 2, 3)?])
    };
    let spec: (&[usize], DType) = (&[2, 3], DType::F32);
    let plan = Plan::trace(&device, &[spec, spec], work).unwrap();
    // Views of other tensors: they are copied to where the plan wants them.
    let wide = Tensor::randn(&[3, 4], 3, DType::F32, &device).unwrap();
    let a = wide.t().unwrap().narrow(0, 1, 2).unwrap();
    let b = Tensor::randn(&[2, 3], 4, DType::F32, &device).unwrap();
    let expected = work(&[a.clone(), b.clone()]).unwrap();
    let found: [Tensor; 6] = plan.run([&a, &b]).unwrap();
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.shape(), expected.shape());
        assert_eq!(bits(found), bits(expected));
    }
}

#[test]
fn misuse_is_an_error_that_says_what_to_do() {
    let device = Device::cpu().unwrap();
    let spec: (&[usize], DType) = (&[4], DType::F32);
    let trace = |work: &dyn Fn(&Tensor) -> Result<Tensor>| {
        Plan::trace(&device, &[spec], |inputs| Ok(vec![work(&inputs[0])?]))
    };
    let read = trace(&|x| if x.to_vec::<f32>()?[0] > 0.0 { x.neg() } else { x.relu() });
    assert!(read.unwrap_err().to_string().contains("read them after a run"));
    let outside = Tensor::ones(&[4], DType::F32, &device).unwrap();
    let unsettled = trace(&|x| x + &outside).unwrap_err().to_string();
    assert!(unsettled.contains("settle"), "{unsettled}");
    let outside = outside.settle().unwrap();
    let plan = trace(&|x| x + &outside).unwrap();
    let nested = trace(&|x| plan.forward(x)).unwrap_err();
    assert!(matches!(nested, Error::Invalid { op: "run", .. }));
    let wrong = Tensor::ones(&[5], DType::F32, &device).unwrap();
    assert!(plan.forward(&wrong).unwrap_err().to_string().contains("shape [5]"));
    let two: Result<[Tensor; 2]> = plan.run([&outside]);
    assert!(two.unwrap_err().to_string().contains("1 to 1"));
    // A panic while tracing leaves the thread as it was.
    let panicked =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| trace(&|_| panic!("planted"))));
    assert!(panicked.is_err());
    assert_eq!(plan.forward(&outside).unwrap().to_vec::<f32>().unwrap(), [2.0; 4]);
}

/// A fault in a run is reported to whoever reads what depends on it, with the layer.
#[test]
fn a_fault_in_a_run_names_command_and_layer() {
    let device = Device::cpu().unwrap();
    let model = Weights::random(1, DType::F32, &device)
        .load(|weights| millstream_nn::Embedding::new(10, 4, &weights.child("table")))
        .unwrap();
    let plan = Plan::of_module(&model, &[3], DType::I64, &device).unwrap();
    let bad = Tensor::from_slice(&[1i64, 99, 2], &[3], &device).unwrap();
    let good = Tensor::from_slice(&[1i64, 9, 2], &[3], &device).unwrap();
    let error = plan.forward(&bad).unwrap().to_vec::<f32>().unwrap_err();
    assert!(
        matches!(&error, Error::Fault { command: "embedding", layer: Some("table"), .. }),
        "{error:?}"
    );
    assert_eq!(bits(&plan.forward(&good).unwrap()), bits(&model.forward(&good).unwrap()));
}

/// 31 threads run one plan: each stream has an arena, and there is one set of weights.
#[test]
fn threads_that_share_a_plan_have_an_arena_each_and_one_set_of_weights() {
    const THREADS: u64 = 31;
    let device = Device::builder("cpu").streams(THREADS as u32 + 1).open().unwrap();
    let home = Stream::default_of(&device).unwrap();
    let (model, plan) = home.scope(|| {
        let model = Weights::random(5, DType::F32, &device).load(encoder).unwrap();
        let plan = Plan::of_module(&model, &[2, 7, 48], DType::F32, &device).unwrap();
        (model, plan)
    });
    let call = |model: &dyn Module, seed: u64| {
        let input = Tensor::randn(&[2, 7, 48], seed, DType::F32, &device)?;
        Ok::<_, Error>(bits(&model.forward(&input)?))
    };
    let expected: Vec<_> =
        home.scope(|| (0..THREADS * 3).map(|seed| call(&model, seed).unwrap()).collect());
    let weights = device.memory().in_use;
    let all_there = std::sync::Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (call, plan, expected, all_there) = (&call, &plan, &expected, &all_there);
            scope.spawn(move || {
                for seed in thread * 3..thread * 3 + 3 {
                    assert_eq!(call(plan, seed).unwrap(), expected[seed as usize]);
                }
                all_there.wait();
            });
        }
    });
    let memory = device.memory();
    assert_eq!(memory.in_use, weights, "no thread has weights of its own");
    let others =
        memory.streams.iter().filter(|stream| stream.stream != home.id() && stream.peak > 0);
    let peaks: Vec<usize> = others.map(|stream| stream.peak).collect();
    assert_eq!(peaks.len(), THREADS as usize);
    let value = 2 * 7 * 48 * 4;
    // Blocks are up to a fifth larger than what was asked for: the arena, input and output.
    let most = (plan.as_core().arena_bytes() + 2 * value) * 5 / 4;
    assert!(peaks.iter().all(|&peak| peak <= most), "{peaks:?}, at most {most}");
    assert!(plan.as_core().arena_bytes() < 4 * value * 2, "{plan:?}");
    device.close().unwrap();
}

/// One step of random code: what it does, and with which of the last values.
type Step = (u8, usize, usize);

/// All values are 4 by 4.
fn random_code(steps: &[Step], inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut values = inputs.to_vec();
    for &(kind, first, second) in steps {
        let pick = |index: usize| &values[values.len() - 1 - index % values.len().min(5)];
        let (a, b) = (pick(first), pick(second));
        let value = match kind % 12 {
            0 => (a + b)?,
            1 => (a * b)?,
            2 => a.relu()?,
            3 => a.tanh()?,
            4 => a.matmul(b)?,
            5 => a.t()?,
            6 => a.softmax(1)?,
            7 => Tensor::cat(&[&a.narrow(1, 0, 2)?, &b.narrow(1, 2, 2)?], 1)?,
            8 => Tensor::cat(&[&a.narrow(0, 1, 3)?, &b.narrow(0, 0, 1)?], 0)?,
            9 => (a + &b.sum(1, true)?)?,
            10 => (a * &Tensor::from_slice(&[1f32, 2.0, 3.0, 0.5], &[4], &a.device())?)?,
            _ => (a - &Tensor::ones(&[4, 4], DType::F32, &a.device())?)?,
        };
        values.push(value);
    }
    Ok(values.split_off(values.len() - 2))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn plans_of_random_code_have_its_bits(
        steps in prop::collection::vec((0u8..12, 0usize..5, 0usize..5), 0..24),
        seed in any::<u64>(),
    ) {
        let device = Device::cpu().unwrap();
        let spec: (&[usize], DType) = (&[4, 4], DType::F32);
        let plan = Plan::trace(&device, &[spec, spec], |inputs| random_code(&steps, inputs)).unwrap();
        for seed in [seed, seed ^ 1] {
            let input = |seed| Tensor::randn(&[4, 4], seed, DType::F32, &device).unwrap();
            let inputs = [input(seed), input(seed ^ 2)];
            let expected = random_code(&steps, &inputs).unwrap();
            // Two runs at once, so that the second does not find the Commands of the first.
            let found: [[Tensor; 2]; 2] = [(); 2].map(|()| plan.run([&inputs[0], &inputs[1]]).unwrap());
            for found in found {
                for (found, expected) in found.iter().zip(&expected) {
                    prop_assert_eq!(bits(found), bits(expected));
                }
            }
        }
    }
}
