use std::sync::Arc;

use millstream_core::{BinaryOp, BufferLike, Command, Stream};
use millstream_nn::{
    Conv, ConvOptions, LSTM, Module, ReLU, RecurrentOptions, Sequential, TransformerEncoder,
    TransformerOptions, Weights,
};

use super::*;
use crate::passes::Passes;
use crate::{Session, ValueType};

fn cpu() -> Device {
    Device::cpu().unwrap()
}

/// The bytes that the code gives, and those that sessions of it give without passes and with all.
fn bytes(
    shapes: &[&[usize]],
    work: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Clone + Send + Sync + 'static,
) -> [Vec<Vec<u8>>; 3] {
    let device = cpu();
    let given: Vec<Tensor> = shapes
        .iter()
        .zip(1..)
        .map(|(shape, seed)| Tensor::randn(shape, seed, DType::F32, &device).unwrap())
        .collect();
    let bytes = |tensors: &[Tensor]| -> Vec<Vec<u8>> {
        tensors.iter().map(|tensor| tensor.to_bytes().unwrap()).collect()
    };
    let eager = bytes(&work(&given).unwrap());
    let names: Vec<String> = (0..shapes.len()).map(|at| format!("x{at}")).collect();
    let inputs: Vec<(&str, ValueType)> =
        names.iter().map(|name| (&name[..], ValueType::Tensor(DType::F32, None))).collect();
    let outputs: Vec<String> = (0..eager.len()).map(|at| format!("y{at}")).collect();
    let outputs: Vec<&str> = outputs.iter().map(|name| &name[..]).collect();
    let [plain, passed] = [Passes::none(), Passes::all()].map(|passes| {
        let session = Session::builder(&device).passes(passes);
        let session = session.trace(&inputs, &outputs, work.clone()).unwrap();
        let made = session.run(&given[..]).unwrap();
        let made: Vec<Tensor> =
            outputs.iter().map(|name| made.tensor(name).unwrap().clone()).collect();
        bytes(&made)
    });
    [eager, plain, passed]
}

/// Checks that a session of the code gives the bits of the code.
fn same_bits(
    shapes: &[&[usize]],
    work: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Clone + Send + Sync + 'static,
) {
    let [eager, plain, passed] = bytes(shapes, work);
    assert!(eager == plain, "other bits without passes");
    assert!(eager == passed, "other bits with passes");
}

fn same_bits_of(module: impl Module + 'static, shape: &[usize]) {
    let module = Arc::new(module);
    same_bits(&[shape], move |inputs| Ok(vec![module.forward(&inputs[0])?]));
}

fn weights() -> Weights {
    Weights::random(1, DType::F32, &cpu())
}

#[test]
fn layers_give_the_same_bits_as_a_session() {
    let options =
        TransformerOptions { batch_first: true, dim_feedforward: 64, ..Default::default() };
    let encoder =
        weights().load(|weights| TransformerEncoder::new(32, 4, 2, true, options, weights));
    same_bits_of(encoder.unwrap(), &[2, 5, 32]);
    let lstm = weights().load(|weights| LSTM::new(8, 6, RecurrentOptions::default(), weights));
    same_bits_of(lstm.unwrap(), &[4, 3, 8]);
    let conv = weights()
        .load(|weights| Conv::<2>::new(3, 8, [3, 3], ConvOptions::default(), weights))
        .unwrap();
    same_bits_of(Sequential::new().push(conv).push(ReLU), &[2, 3, 9, 9]);
}

#[test]
fn views_of_all_kinds_give_the_same_bits() {
    same_bits(&[&[4, 6, 5]], |inputs| {
        let x = &inputs[0];
        Ok(vec![
            x.transpose(0, 2)?.exp()?,
            x.narrow(1, 2, 3)?.transpose(0, 1)?.exp()?,
            x.slice_by(1, 1..6, 2)?.exp()?,
            x.slice_by(2, 0..5, 3)?.exp()?,
            x.select(1, 4)?.exp()?,
            x.select(2, 1)?.t()?.exp()?,
            x.select(0, 3)?.unsqueeze(1)?.broadcast_to(&[2, 6, 4, 5])?.exp()?,
            x.permute(&[2, 0, 1])?.reshape(&[10, 12])?.exp()?,
            x.narrow(0, 1, 2)?.flatten(0, 2)?.narrow(0, 7, 11)?.exp()?,
            // Views are results too, and so is an input.
            x.transpose(1, 2)?,
            x.clone(),
        ])
    });
}

#[test]
fn what_is_joined_and_split_gives_the_same_bits() {
    same_bits(&[&[2, 3, 4], &[2, 1, 4]], |inputs| {
        let (x, y) = (&inputs[0], &inputs[1]);
        let joined = Tensor::cat(&[x, &y.relu()?, &x.exp()?], 1)?;
        let last = Tensor::cat(&[x, &x.narrow(2, 1, 1)?], 2)?;
        let first = Tensor::cat(&[y, y, &y.neg()?], 0)?;
        let parts = joined.split(2, 1)?;
        let stacked = Tensor::stack(&[y, &y.exp()?], 3)?;
        Ok(vec![joined.exp()?, last.exp()?, first.neg()?, parts[1].mul(&parts[2])?, stacked.neg()?])
    });
}

#[test]
fn numbers_of_the_host_are_constants() {
    same_bits(&[&[3]], |inputs| {
        let device = inputs[0].device();
        let numbers = Tensor::from_slice(&[1f32, 2.0, 3.0], &[3], &device)?;
        Ok(vec![inputs[0].add(&numbers.exp()?)?, numbers])
    });
    let graph = Graph::trace(&cpu(), &[(&[3], DType::F32)], |inputs| {
        let numbers = Tensor::from_slice(&[1f32, 2.0, 3.0], &[3], &cpu())?;
        Ok(vec![inputs[0].add(&numbers.exp()?)?])
    });
    assert_eq!(graph.unwrap().nodes().len(), 1);
}

/// A copy of `into` whose part at `layout` is `part`.
fn with_part(into: &Tensor, layout: Layout, part: &Tensor) -> Result<Tensor> {
    let copy = into.copy()?;
    let stream = Stream::current_unleased(&into.device())?;
    let to = copy.buffer().operand(layout);
    stream.record(Command::copy(to, part.buffer().operand(*part.layout()))?)?;
    Ok(copy)
}

#[test]
fn a_part_that_is_written_later_replaces_what_was_there() {
    same_bits(&[&[4, 5, 6], &[2, 3, 6], &[4, 2, 3]], |inputs| {
        let whole = *inputs[0].layout();
        let rows = whole.slice(0, 1, 2, 1)?.slice(1, 2, 3, 1)?;
        let columns = whole.slice(1, 0, 2, 1)?.slice(2, 3, 3, 1)?;
        let made = with_part(&inputs[0], rows, &inputs[1])?;
        Ok(vec![made.exp()?, with_part(&made, columns, &inputs[2])?.neg()?])
    });
}

#[test]
fn what_works_in_place_gives_the_same_bits() {
    same_bits(&[&[5], &[5]], |inputs| {
        let sum = inputs[0].add(&inputs[1])?;
        let doubled = sum.exp()?;
        let stream = Stream::current_unleased(&sum.device())?;
        let at = || sum.buffer().operand(*sum.layout());
        let other = doubled.buffer().operand(*doubled.layout());
        stream.record(Command::binary(BinaryOp::Mul, at(), at(), other)?)?;
        Ok(vec![sum, doubled])
    });
}

#[test]
fn weights_are_not_copied() {
    let layer = weights().load(|weights| millstream_nn::Linear::new(64, 64, true, weights));
    let layer = Arc::new(layer.unwrap());
    let graph = Graph::trace(&cpu(), &[(&[2, 64], DType::F32)], |inputs| {
        Ok(vec![layer.forward(&inputs[0])?])
    });
    let graph = graph.unwrap();
    let folder = crate::constant::Folder::new(&cpu(), 1 << 30).unwrap();
    let read = graph.nodes()[0].inputs.iter().filter_map(|&edge| graph.constant(edge));
    let loaded: Vec<Tensor> = read.map(|constant| constant.load(&folder).unwrap()).collect();
    assert_eq!(loaded.len(), 2, "a weight and a bias");
    let again = Graph::trace(&cpu(), &[(&[9, 64], DType::F32)], |inputs| {
        Ok(vec![layer.forward(&inputs[0])?])
    });
    let again = again.unwrap();
    let read = again.nodes()[0].inputs.iter().filter_map(|&edge| again.constant(edge));
    for (first, constant) in loaded.iter().zip(read) {
        let second = constant.load(&folder).unwrap();
        let address = |tensor: &Tensor| BufferLike::identity(&tensor.buffer());
        assert_eq!(address(first), address(&second), "a copy");
    }
}

#[test]
fn what_cannot_be_a_graph_is_refused_in_words() {
    let error = |work: fn(&[Tensor]) -> Result<Vec<Tensor>>| {
        Graph::trace(&cpu(), &[(&[4], DType::F32)], work).unwrap_err().to_string()
    };
    let read = error(|inputs| {
        inputs[0].to_vec::<f32>()?;
        Ok(vec![])
    });
    assert!(read.contains("values are read on the host"), "{read}");
    let overlapping = error(|inputs| {
        let windows = Layout::strided(DType::F32, &[2, 3], &[1, 1], 0)?;
        Ok(vec![Tensor::from_buffer(inputs[0].buffer().clone(), windows)?.exp()?])
    });
    assert!(overlapping.contains("is no view of f32[4]: copy it first"), "{overlapping}");
    let partly = error(|inputs| {
        let stream = Stream::current_unleased(&inputs[0].device())?;
        let buffer = stream.allocate(16)?;
        let half = Layout::contiguous(DType::F32, &[2])?;
        stream.record(Command::fill(buffer.operand(half), 1f32)?)?;
        let whole = Layout::contiguous(DType::F32, &[4])?;
        Ok(vec![Tensor::from_buffer(buffer, whole)?.exp()?])
    });
    assert!(partly.contains("memory that was not written whole"), "{partly}");
    let device = cpu();
    let declared = [("x", ValueType::Tensor(DType::F32, None))];
    let session =
        Session::builder(&device).trace(&declared, &["a", "b"], |inputs| Ok(inputs.to_vec()));
    let ones = Tensor::ones(&[2], DType::F32, &device).unwrap();
    let error = session.unwrap().run([&ones]).unwrap_err().to_string();
    assert!(error.contains("the code gives 1 tensors, but has names for 2"), "{error}");
}

#[test]
fn a_session_of_code_is_traced_once_per_shape() {
    let device = cpu();
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let declared = [("x", ValueType::Tensor(DType::F32, None))];
    let session = Session::builder(&device).trace(&declared, &["y"], move |inputs| {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(vec![inputs[0].exp()?])
    });
    let session = session.unwrap();
    for size in [3, 5, 3, 5, 3] {
        let ones = Tensor::ones(&[size], DType::F32, &device).unwrap();
        session.run([&ones]).unwrap().wait().unwrap();
    }
    assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 2);
}
