//! What things cost. Nothing rests on these figures but choices that were made without them.

use std::time::{Duration, Instant};

use objc2_metal::{
    MTLBarrierScope, MTLBlitCommandEncoder, MTLCommandBuffer, MTLCommandEncoder, MTLCommandQueue,
    MTLComputeCommandEncoder,
};

use super::lab::{Lab, Params, Running, THREADS, dispatch, dispatch_groups};
use super::{Check, RowResult, measured, median, micros};
use crate::builtin;
use crate::objects::{Ref, pooled};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "event-latency-spun",
        assumed: "",
        run: |lab| latency(lab, |running| running.spin()),
    },
    Check { name: "event-latency-slept", assumed: "", run: |lab| latency(lab, sleep) },
    Check {
        name: "handler-latency",
        assumed: "",
        run: |lab| latency(lab, |running| running.finish().map(drop)),
    },
    Check { name: "encode-cost", assumed: "", run: encode_cost },
    Check { name: "barrier-cost", assumed: "", run: barrier_cost },
    Check { name: "copy-rates", assumed: "", run: copy_rates },
    Check { name: "compile-times", assumed: "", run: compile_times },
    Check { name: "first-after-idle", assumed: "", run: first_after_idle },
];

const ROUNDS: usize = 50;
/// Dispatches of a command buffer whose costs are compared.
const DISPATCHES: usize = 200;

fn sleep(running: &Running) -> Result<(), String> {
    match running.wait(Duration::from_secs(30)) {
        true => Ok(()),
        false => Err("no event came for 30 s".into()),
    }
}

/// The time from the commit of a small kernel until its end is known.
fn latency(lab: &Lab, wait: fn(&Running) -> Result<(), String>) -> RowResult {
    let (queue, kernel) = (lab.queue(8)?, lab.pipeline("probe_step")?);
    let memory = lab.words(THREADS)?;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let step = Params { count: THREADS as u32, value: 1, ..Params::default() };
        let running = pooled(|| {
            lab.compute(&queue, |compute| dispatch(compute, &kernel, &[&memory], step, THREADS))
        })?;
        wait(&running)?;
        times.push(running.committed.elapsed());
        running.spin()?;
    }
    measured(format!("{} from commit to known, a kernel of one group", micros(median(times))))
}

fn encode_cost(lab: &Lab) -> RowResult {
    let (queue, kernel) = (lab.queue(8)?, lab.pipeline("probe_step")?);
    let memory = lab.words(THREADS)?;
    let step = Params { count: THREADS as u32, value: 1, ..Params::default() };
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let running = pooled(|| {
            lab.compute(&queue, |compute| {
                (0..DISPATCHES).for_each(|_| dispatch(compute, &kernel, &[&memory], step, THREADS));
            })
        })?;
        times.push(start.elapsed());
        running.finish()?;
    }
    let each = median(times) / DISPATCHES as u32;
    measured(format!(
        "{} for each of {DISPATCHES} dispatches, with its buffer, params and share of the command buffer",
        micros(each)
    ))
}

/// The GPU's time for a command buffer of small dispatches.
fn gpu_time(
    lab: &Lab,
    queue: &Ref<dyn MTLCommandQueue>,
    barriers: bool,
) -> Result<Duration, String> {
    let (kernel, memory) = (lab.pipeline("probe_step")?, lab.words(THREADS * DISPATCHES)?);
    let running = lab.compute(queue, |compute| {
        for index in 0..DISPATCHES {
            let place = [(&memory, index * THREADS * 4)];
            dispatch_groups(compute, &kernel, &place, &[THREADS as u32, 0, 1, 0], [1, THREADS]);
            if barriers {
                compute.memoryBarrierWithScope(MTLBarrierScope::Buffers);
            }
        }
    })?;
    let [start, end] = running.finish()?.gpu;
    Ok(Duration::from_secs_f64((end - start).max(0.0)))
}

fn barrier_cost(lab: &Lab) -> RowResult {
    let queue = lab.queue(8)?;
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..20 {
        times[round % 2].push(gpu_time(lab, &queue, round % 2 == 1)?);
    }
    let [without, with] = times.map(|times| median(times).as_secs_f64() / DISPATCHES as f64 * 1e6);
    measured(format!(
        "a dispatch of one group takes {without:.2} µs of the GPU, with a barrier behind it {with:.2} µs"
    ))
}

fn copy_rates(lab: &Lab) -> RowResult {
    let bytes = 16 << 20;
    let (queue, from, to) = (lab.queue(8)?, lab.words(bytes / 4)?, lab.words(bytes / 4)?);
    let library = lab.compiler.begin(builtin::SOURCE).wait()?;
    let kernel = lab.compiler.pipeline(&library, "ms_copy_vectors", builtin::COPY_THREADS)?;
    let words = [bytes as u32, 0, 0, 0];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..10 {
        let running = pooled(|| match round % 2 {
            0 => lab.commit(&queue, |commands| {
                let blit = commands.blitCommandEncoder().ok_or("no encoder")?;
                // SAFETY: both buffers have so many bytes, and the command buffer retains them.
                unsafe {
                    blit.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                        from.object(),
                        0,
                        to.object(),
                        0,
                        bytes,
                    );
                }
                blit.endEncoding();
                Ok(())
            }),
            _ => lab.compute(&queue, |compute| {
                dispatch_groups(compute, &kernel, &[(&to, 0), (&from, 0)], &words, [1024, THREADS]);
            }),
        })?;
        let [start, end] = running.finish()?.gpu;
        times[round % 2].push(Duration::from_secs_f64((end - start).max(1e-9)));
    }
    let [blit, compute] = times.map(|times| bytes as f64 / median(times).as_secs_f64() * 1e-9);
    measured(format!("16 MiB: blit {blit:.1} GB/s, our kernel {compute:.1} GB/s"))
}

fn compile_times(lab: &Lab) -> RowResult {
    // A constant that no run before had, so that no cache has the text.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let unique = now.map_err(|error| error.to_string())?.as_nanos();
    let text = format!(
        "{}\n// {unique}\nconstant uint probe_unique = {}u;\n[[max_total_threads_per_threadgroup(256)]]\nkernel void probe_fresh(device uint* out [[buffer(0)]]) {{ out[0] = probe_unique; }}\n",
        builtin::SOURCE,
        unique as u32
    );
    let compile = || {
        let start = Instant::now();
        let library = lab.compiler.begin(&text).wait()?;
        let compiled = start.elapsed();
        lab.compiler.pipeline(&library, "probe_fresh", THREADS as u32)?;
        Ok::<_, String>([compiled, start.elapsed() - compiled])
    };
    let ([cold, cold_pipeline], [warm, warm_pipeline]) = (compile()?, compile()?);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    measured(format!(
        "a text of four kernels: {:.1} ms and {:.1} ms for a pipeline; again {:.1} ms and {:.1} ms",
        ms(cold),
        ms(cold_pipeline),
        ms(warm),
        ms(warm_pipeline)
    ))
}

fn first_after_idle(lab: &Lab) -> RowResult {
    let (queue, kernel) = (lab.queue(8)?, lab.pipeline("probe_step")?);
    // Memory that the system may take away from an idle process.
    let memory = lab.words(16 << 20)?;
    let step = Params { count: 16 << 20, value: 1, ..Params::default() };
    let call = || {
        let start = Instant::now();
        pooled(|| lab.run(&queue, &kernel, &[&memory], step, THREADS)).map(|_| start.elapsed())
    };
    let usual = median((0..20).map(|_| call()).collect::<Result<_, _>>()?);
    let mut text = format!("usual {}", micros(usual));
    for idle in [lab.options.idle.min(Duration::from_secs(2)), lab.options.idle] {
        std::thread::sleep(idle);
        let ratio = call()?.as_secs_f64() / usual.as_secs_f64();
        text += &format!(", after {:.1} s idle {ratio:.1} times that", idle.as_secs_f64());
    }
    measured(text)
}
