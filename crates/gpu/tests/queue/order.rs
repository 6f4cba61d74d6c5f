//! Waits between queues.

use millstream_core::Stream;

use crate::kit::{Gpu, Layer, ROWS, SIZE, matrix, read, row};

#[test]
fn streams_come_in_order() {
    for seed in 1..=5 {
        let gpu = Gpu::with_seed(seed);
        let streams: Vec<Stream> = (0..8).map(|_| gpu.stream()).collect();
        let layer = Layer::new(&streams[0]);
        for round in 0..100 {
            // Each value is written by one stream, used by a second and read by a third.
            let input = Layer::input(round);
            let one = matrix(ROWS, SIZE);
            let pick = |step: usize| &streams[(round * 3 + step * 5) % 8];
            pick(0).upload(layer.x.operand(one), &input).unwrap();
            layer.record(pick(1), &layer.y, &layer.x).unwrap();
            let got = pick(2).download(layer.y.operand(one)).unwrap().read::<f32>().unwrap();
            assert_eq!(got, Layer::expected(&input), "seed {seed}, round {round}");
        }
    }
}

#[test]
fn a_stream_that_waits_for_two_comes_after_both() {
    for seed in 1..=20 {
        let gpu = Gpu::with_seed(seed);
        let [first, second, last] = [(); 3].map(|()| gpu.stream());
        let [x, y] = [(); 2].map(|()| last.allocate(row(4).dense_bytes()).unwrap());
        for buffer in [&x, &y] {
            last.upload(buffer.operand(row(4)), &[0f32; 4]).unwrap();
        }
        last.synchronize().unwrap();
        gpu.hold();
        first.upload(x.operand(row(4)), &[1f32; 4]).unwrap();
        second.upload(y.operand(row(4)), &[2f32; 4]).unwrap();
        let downloads = [&x, &y].map(|buffer| read(&last, buffer));
        last.flush().unwrap();
        gpu.release();
        let values = downloads.map(|download| download.read::<f32>().unwrap());
        assert_eq!(values, [vec![1.0; 4], vec![2.0; 4]]);
    }
}

/// Each stream reads what the one before it has written, and the first what the last has.
#[test]
fn streams_in_a_ring_do_not_wait_for_each_other_for_ever() {
    const STREAMS: usize = 6;
    for seed in 1..=5 {
        let gpu = Gpu::with_seed(seed);
        let streams: Vec<Stream> = (0..STREAMS).map(|_| gpu.stream()).collect();
        let layer = Layer::new(&streams[0]);
        let one = matrix(ROWS, SIZE);
        let memory = || streams[0].allocate(one.dense_bytes()).unwrap();
        let buffers: Vec<_> = (0..STREAMS).map(|_| memory()).collect();
        let input = Layer::input(seed as usize);
        streams[0].upload(buffers[0].operand(one), &input).unwrap();
        gpu.hold();
        let mut expected = input;
        for step in 0..3 * STREAMS {
            let (from, to) = (&buffers[step % STREAMS], &buffers[(step + 1) % STREAMS]);
            layer.record(&streams[step % STREAMS], to, from).unwrap();
            expected = Layer::expected(&expected).iter().map(|value| value % 1e6).collect();
            // Values are kept small enough to be exact.
            if step % 2 == 1 {
                let stream = &streams[(step + 1) % STREAMS];
                stream.upload(to.operand(one), &Layer::input(step)).unwrap();
                expected = Layer::input(step);
            }
        }
        let last = &buffers[3 * STREAMS % STREAMS];
        let download = streams[0].download(last.operand(one)).unwrap();
        streams[0].flush().unwrap();
        gpu.release();
        assert_eq!(download.read::<f32>().unwrap(), expected, "seed {seed}");
    }
}
