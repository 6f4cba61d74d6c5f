use millstream_core::{Command, DType};

use crate::kernels::shared::testing::{Tensor, fault, run};

fn cache() -> Tensor {
    Tensor::floats(DType::F32, &[2, 4, 2], &[0.0; 16])
}

fn update() -> Tensor {
    Tensor::floats(DType::F32, &[2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
}

#[test]
fn a_cache_that_is_written_in_place_keeps_the_rest() {
    let (cache, update) = (cache(), update());
    let at = Tensor::new(&[2], &[1i64, 3]);
    let [to, new, at] = [&cache, &update, &at].map(Tensor::operand);
    run(Command::cache_write(to, to, new, Some(at), 1, true));
    let expected = [0., 0., 1., 2., 3., 4., 0., 0., 7., 8., 0., 0., 0., 0., 5., 6.];
    assert_eq!(cache.values::<f32>(), expected);
}

#[test]
fn a_position_that_leaves_no_room_is_a_fault() {
    for position in [-1, 3, i64::MIN, i64::MAX] {
        let (cache, update) = (cache(), update());
        let at = Tensor::new(&[2], &[0i64, position]);
        let [to, new, at] = [&cache, &update, &at].map(Tensor::operand);
        let message = fault(Command::cache_write(to, to, new, Some(at), 1, false));
        assert!(message.contains("do not fit"), "{message}");
    }
}
