use super::*;

#[test]
fn all_that_a_text_defines_is_found_and_nothing_else() {
    let text = "
#define TILE (16 * \\
    SLICES)
typedef Index<WIDE>::Type I; // not J
enum { ITEMS = 2, QUEUE = 4 * THREADS };
struct Best {
    f32 score;
    FN Best empty() { const Best none = {0.0f}; return none; }
};
TABLE f32 NUMBERS[3] = {1.0f, 2.0f, 3.0f};
template <int COUNT> FN void fetch(IN_THREAD I* next, I (other)) { I local = first(next); }
template <> struct Read<1> { FN I entry(I i) { return i; } };
#if STAGE == 1
FN u32 holds(I i) { return (u32)i; }
#endif
namespace step_0 {
FN u32 inner(u32 x) { return x; }
}
KERNEL_1(dst) {
    typedef u32 Inner;
    const Thread t = THREAD;
}
";
    let names = Names::of(text);
    assert_eq!(
        names.items,
        ["I", "ITEMS", "QUEUE", "Best", "NUMBERS", "fetch", "Read", "holds", "step_0"]
            .map(String::from)
    );
    assert_eq!(names.macros, ["TILE"].map(String::from));
}
