//! Limits of the GPU and of Metal's calls that kernels and backend count on.

use objc2::runtime::ProtocolObject;
use objc2_metal::{
    MTLBuffer, MTLCommandBuffer, MTLCommandQueue, MTLComputePipelineState, MTLDevice,
    MTLResidencySet, MTLResidencySetDescriptor,
};

use super::lab::{Lab, Params, THREADS, dispatch_groups};
use super::{Check, RowResult, compared, measured};

pub(super) const CHECKS: &[Check] = &[
    Check { name: "simd-width", assumed: "a SIMD group has 32 threads", run: simd_width },
    Check {
        name: "lane-shuffle",
        assumed: "a lane reads what another lane of its SIMD group has",
        run: lane_shuffle,
    },
    Check {
        name: "group-memory",
        assumed: "a group has 32 KB of memory, and a kernel can use all of it",
        run: group_memory,
    },
    Check {
        name: "group-threads",
        assumed: "a kernel that asks for it runs with 1,024 threads in a group",
        run: group_threads,
    },
    Check {
        name: "binding-offset",
        assumed: "a buffer can be bound at any multiple of 4 bytes",
        run: binding_offset,
    },
    Check { name: "bytes-length", assumed: "setBytes takes 4,096 bytes", run: bytes_length },
    Check {
        name: "atomics",
        assumed: "32-bit additions in device memory by all threads are counted, and seen by the host",
        run: atomics,
    },
    Check {
        name: "unified-memory",
        assumed: "host and GPU share memory: a shared buffer has an address for the host",
        run: unified_memory,
    },
    Check {
        name: "unretained-references",
        assumed: "a command buffer can be had that retains nothing of what it uses",
        run: unretained_references,
    },
    Check {
        name: "residency-sets",
        assumed: "a queue takes 32 residency sets, and runs what is in them",
        run: residency_sets,
    },
    Check {
        name: "residency-commit",
        assumed: "what a residency set gets counts after its commit",
        run: residency_commit,
    },
    Check { name: "memory-limits", assumed: "", run: memory_limits },
];

fn simd_width(lab: &Lab) -> RowResult {
    // Others are refused there.
    let kernel = match lab.pipeline("probe_lanes") {
        Ok(kernel) => kernel,
        Err(reason) => return compared(false, reason),
    };
    let (queue, out) = (lab.queue(8)?, lab.words(1024)?);
    lab.run(&queue, &kernel, &[&out], Params::default(), THREADS)?;
    let lanes = out.get(0);
    let width = kernel.threadExecutionWidth();
    compared(
        width == 32 && lanes == 32,
        format!("the pipeline says {width}, its lanes add up to {lanes}"),
    )
}

fn lane_shuffle(lab: &Lab) -> RowResult {
    let family = lab.features.family;
    // Said to come with family 6, and used by kernels on any.
    let kernel = match lab.pipeline("probe_shuffle") {
        Ok(kernel) => kernel,
        Err(reason) => return compared(false, format!("family {family}: {reason}")),
    };
    let (queue, out) = (lab.queue(8)?, lab.words(THREADS)?);
    lab.run(&queue, &kernel, &[&out], Params::default(), THREADS)?;
    let right = (0..THREADS).filter(|&i| out.get(i) as usize == i ^ 5).count();
    compared(right == THREADS, format!("family {family}: {right} of {THREADS} lanes were right"))
}

fn group_memory(lab: &Lab) -> RowResult {
    let most = lab.device.maxThreadgroupMemoryLength();
    let kernel = lab.pipeline("probe_group_memory")?;
    let (queue, out) = (lab.queue(8)?, lab.words(8192)?);
    lab.run(&queue, &kernel, &[&out], Params { value: 7, ..Params::default() }, THREADS)?;
    let right = (0..8192).filter(|&i| out.get(i) == 8191 - i as u32 + 7).count();
    compared(
        most >= 32 << 10 && right == 8192,
        format!("{most} bytes; {right} of 8192 words were right"),
    )
}

fn group_threads(lab: &Lab) -> RowResult {
    let kernel = lab.pipeline("probe_lanes")?;
    let most = kernel.maxTotalThreadsPerThreadgroup();
    if most < 1024 {
        return compared(false, format!("{most} threads"));
    }
    let (queue, out) = (lab.queue(8)?, lab.words(1024)?);
    lab.compute(&queue, |compute| {
        dispatch_groups(compute, &kernel, &[(&out, 0)], &[0], [1, 1024])
    })?
    .finish()?;
    let ran = (0..1024).filter(|&i| out.get(i) != 0).count();
    compared(ran == 1024, format!("{ran} of 1024 threads ran; the pipeline allows {most}"))
}

fn binding_offset(lab: &Lab) -> RowResult {
    let (queue, kernel, memory) = (lab.queue(8)?, lab.pipeline("probe_step")?, lab.words(512)?);
    let params = [16, 0, 5, 0];
    lab.compute(&queue, |compute| {
        dispatch_groups(compute, &kernel, &[(&memory, 4)], &params, [1, THREADS]);
    })?
    .finish()?;
    let words: Vec<u32> = (0..18).map(|index| memory.get(index)).collect();
    let right = words[0] == 0 && words[17] == 0 && words[1..17].iter().all(|word| *word == 5);
    compared(right, if right { "bound at 4" } else { "other words were written" })
}

fn bytes_length(lab: &Lab) -> RowResult {
    let (queue, kernel, memory) = (lab.queue(8)?, lab.pipeline("probe_step")?, lab.words(512)?);
    let mut words = [0u32; 1024];
    (words[0], words[2]) = (512, 9);
    lab.compute(&queue, |compute| {
        dispatch_groups(compute, &kernel, &[(&memory, 0)], &words, [2, THREADS]);
    })?
    .finish()?;
    let right = (0..512).filter(|&i| memory.get(i) == 9).count();
    compared(right == 512, format!("{right} of 512 words were right"))
}

fn atomics(lab: &Lab) -> RowResult {
    let (queue, kernel, count) = (lab.queue(8)?, lab.pipeline("probe_count")?, lab.words(4)?);
    let threads = 64 * THREADS;
    lab.run(&queue, &kernel, &[&count], Params::default(), threads)?;
    compared(count.get(0) as usize == threads, format!("{} of {threads}", count.get(0)))
}

fn unified_memory(lab: &Lab) -> RowResult {
    let (unified, memory) = (lab.device.hasUnifiedMemory(), lab.words(4)?);
    let address = memory.object().contents();
    compared(
        unified,
        format!(
            "unified: {unified}; aligned to {}",
            1usize << address.as_ptr().addr().trailing_zeros()
        ),
    )
}

fn unretained_references(lab: &Lab) -> RowResult {
    let queue = lab.queue(8)?;
    let commands = queue.commandBufferWithUnretainedReferences().ok_or("no command buffer")?;
    let retains = commands.retainedReferences();
    compared(!retains, if retains { "it retains them" } else { "it retains nothing" })
}

fn residency_sets(lab: &Lab) -> RowResult {
    if !lab.features.residency {
        return Err(
            "this device has no residency sets: they came with macOS 15 and Apple family 6".into(),
        );
    }
    let (queue, kernel) = (lab.queue(8)?, lab.pipeline("probe_count")?);
    let buffers: Result<Vec<_>, _> = (0..32).map(|_| lab.words(64)).collect();
    let buffers = buffers?;
    let mut sets = Vec::new();
    for buffer in &buffers {
        let made =
            lab.device.newResidencySetWithDescriptor_error(&MTLResidencySetDescriptor::new());
        let set = made.map_err(|error| error.localizedDescription().to_string())?;
        set.addAllocation(ProtocolObject::from_ref(buffer.object()));
        set.commit();
        queue.addResidencySet(&set);
        sets.push(set);
    }
    let mut right = 0;
    for buffer in &buffers {
        lab.run(&queue, &kernel, &[buffer], Params::default(), THREADS)?;
        right += usize::from(buffer.get(0) as usize == THREADS);
    }
    compared(right == 32, format!("memory of {right} of 32 sets was used"))
}

fn residency_commit(lab: &Lab) -> RowResult {
    if !lab.features.residency {
        return Err("this device has no residency sets".into());
    }
    let made = lab.device.newResidencySetWithDescriptor_error(&MTLResidencySetDescriptor::new());
    let set = made.map_err(|error| error.localizedDescription().to_string())?;
    let memory = lab.words(1 << 20)?;
    let empty = set.allocatedSize();
    set.addAllocation(ProtocolObject::from_ref(memory.object()));
    let added = set.allocatedSize();
    set.commit();
    let committed = set.allocatedSize();
    compared(
        added == empty && committed > empty,
        format!("{empty} bytes at first, {added} with a buffer, {committed} after the commit"),
    )
}

fn memory_limits(lab: &Lab) -> RowResult {
    let device = &lab.device;
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    measured(format!(
        "{}, family {}, macOS {}; buffers up to {:.1} GiB, {:.1} GiB in all",
        device.name(),
        lab.features.family,
        lab.features.version,
        gib(device.maxBufferLength() as u64),
        gib(device.recommendedMaxWorkingSetSize())
    ))
}
