use loom::sync::Arc;
use loom::thread;

use super::*;

/// Of two that try at once for one core, one gets it; the next one does after it has left.
#[test]
fn loom_a_core_has_one_helper() {
    loom::model(|| {
        let helpers = Arc::new(Helpers::new());
        let other = {
            let helpers = Arc::clone(&helpers);
            thread::spawn(move || helpers.join(1))
        };
        let here = helpers.join(1);
        let there = other.join().unwrap();
        assert!(here != there);
        helpers.leave();
        assert!(helpers.join(1));
    });
}
