//! Indirect command buffers: whether they do what prepared lists need, and what they save.

use std::time::Instant;

use objc2::runtime::ProtocolObject;
use objc2_foundation::NSRange;
use objc2_metal::{
    MTLComputeCommandEncoder, MTLComputePipelineState, MTLDevice, MTLIndirectCommandBuffer,
    MTLIndirectCommandBufferDescriptor, MTLIndirectCommandType, MTLIndirectComputeCommand,
    MTLResourceOptions, MTLResourceUsage, MTLSize,
};

use super::lab::{Lab, Params, Shared, THREADS, dispatch};
use super::{Check, RowResult, compared, measured, median, micros};
use crate::objects::{Obj, Ref, pooled};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "indirect-commands",
        assumed: "indirect dispatches with barriers run one after the other, with buffers that are declared",
        run: indirect_commands,
    },
    Check { name: "indirect-cost", assumed: "", run: indirect_cost },
];

const COMMANDS: usize = 200;
const ROUNDS: usize = 50;

fn has(lab: &Lab) -> Result<(), String> {
    match lab.features.indirect {
        true => Ok(()),
        false => {
            Err("this device has no indirect command buffers: they need Apple family 7".into())
        }
    }
}

/// Commands of a kernel on one memory, each with params of its own and a barrier before it.
fn make(
    lab: &Lab,
    kernel: &Ref<dyn MTLComputePipelineState>,
    memory: &Shared,
    params: &Shared,
    threads: usize,
) -> Result<Obj<dyn MTLIndirectCommandBuffer>, String> {
    let descriptor = MTLIndirectCommandBufferDescriptor::new();
    descriptor.setCommandTypes(MTLIndirectCommandType::ConcurrentDispatch);
    descriptor.setInheritPipelineState(false);
    descriptor.setInheritBuffers(false);
    descriptor.setMaxKernelBufferBindCount(2);
    let size = |width: usize| MTLSize { width, height: 1, depth: 1 };
    // SAFETY: as many commands as are encoded, indices that the kernel has, and buffers that live as long as the commands.
    unsafe {
        let made = lab.device.newIndirectCommandBufferWithDescriptor_maxCommandCount_options(
            &descriptor,
            COMMANDS,
            MTLResourceOptions::StorageModeShared,
        );
        let made = made.ok_or("no indirect command buffer")?;
        for index in 0..COMMANDS {
            let command = made.indirectComputeCommandAtIndex(index);
            command.setComputePipelineState(kernel);
            command.setKernelBuffer_offset_atIndex(memory.object(), 0, 0);
            command.setKernelBuffer_offset_atIndex(params.object(), 16 * index, 1);
            command.setBarrier();
            command.concurrentDispatchThreadgroups_threadsPerThreadgroup(
                size(threads.div_ceil(THREADS)),
                size(THREADS),
            );
        }
        Ok(made)
    }
}

/// Has an encoder run all of them.
fn execute(
    compute: &Ref<dyn MTLComputeCommandEncoder>,
    commands: &Ref<dyn MTLIndirectCommandBuffer>,
    [memory, params]: [&Shared; 2],
) {
    let usage = MTLResourceUsage::Read | MTLResourceUsage::Write;
    for buffer in [memory, params] {
        compute.useResource_usage(ProtocolObject::from_ref(buffer.object()), usage);
    }
    let range = NSRange { location: 0, length: COMMANDS };
    // SAFETY: as many as there are; the caller keeps them until the command buffer is through.
    unsafe { compute.executeCommandsInBuffer_withRange(commands, range) };
}

/// What each command has the kernel add.
fn numbered(lab: &Lab, words: usize) -> Result<Shared, String> {
    let params = lab.words(4 * COMMANDS)?;
    for index in 0..COMMANDS {
        params.set(4 * index, words as u32);
        params.set(4 * index + 2, index as u32 + 1);
    }
    Ok(params)
}

fn indirect_commands(lab: &Lab) -> RowResult {
    has(lab)?;
    let words = 4 * THREADS;
    let (queue, kernel, memory) = (lab.queue(8)?, lab.pipeline("probe_step")?, lab.words(words)?);
    let params = numbered(lab, words)?;
    let commands = pooled(|| make(lab, &kernel, &memory, &params, words))?;
    let mut expected = 0u32;
    for _ in 0..2 {
        expected = (1..=COMMANDS as u32)
            .fold(expected, |word, value| word.wrapping_mul(3).wrapping_add(value));
        lab.compute(&queue, |compute| execute(compute, &commands, [&memory, &params]))?.finish()?;
    }
    let right = (0..words).filter(|&index| memory.get(index) == expected).count();
    compared(
        right == words,
        format!("{right} of {words} words were right after {COMMANDS} dispatches, twice"),
    )
}

fn indirect_cost(lab: &Lab) -> RowResult {
    has(lab)?;
    let (queue, kernel, memory) = (lab.queue(8)?, lab.pipeline("probe_step")?, lab.words(THREADS)?);
    let step = Params { count: THREADS as u32, value: 1, ..Params::default() };
    let params = numbered(lab, THREADS)?;
    let start = Instant::now();
    let commands = pooled(|| make(lab, &kernel, &memory, &params, THREADS))?;
    let made = start.elapsed() / COMMANDS as u32;
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..2 * ROUNDS {
        let start = Instant::now();
        let running = pooled(|| {
            lab.compute(&queue, |compute| match round % 2 {
                0 => execute(compute, &commands, [&memory, &params]),
                _ => (0..COMMANDS)
                    .for_each(|_| dispatch(compute, &kernel, &[&memory], step, THREADS)),
            })
        })?;
        times[round % 2].push(start.elapsed());
        running.finish()?;
    }
    let [executed, encoded] = times.map(|times| micros(median(times)));
    measured(format!(
        "a command buffer of {COMMANDS} dispatches: {executed} with indirect commands, {encoded} encoded; a command takes {} to make",
        micros(made)
    ))
}
