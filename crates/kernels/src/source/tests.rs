use super::*;

#[test]
fn a_source_has_its_constants_params_and_entry() {
    let key = Key::new(Program::Fill, &[4, 1, 0, 4]);
    let text = source(&key, Dialect::Cuda);
    for part in ["#define SIZE (4)", "#define VECTOR (4)", "struct Params", "Walk<1> walk;"] {
        assert!(text.contains(part), "{part}");
    }
    assert!(text.contains(&format!("#define ENTRY {}", key.entry())));
}

#[test]
fn only_metal_has_a_header() {
    let key = Key::new(Program::Copy, &[0, 1, 1, 0, 4, 3]);
    assert!(source(&key, Dialect::Metal).contains("#include <metal_stdlib>"));
    for dialect in [Dialect::Cuda, Dialect::Host] {
        assert!(!source(&key, dialect).contains("#include"), "{dialect:?}");
    }
}

#[test]
fn entries_are_different_and_say_what_they_are() {
    let key = Key::new(Program::Copy, &[0, 1, 1, 0, 4, 3]);
    assert_eq!(key.entry(), "ms_copy_0_1_1_0_4_3");
    assert_ne!(key.entry(), key.with("WIDE", 1).entry());
    assert_eq!(key.with("NO_SUCH", 1), key);
    assert_eq!(key.constants().count(), 6);
    assert_eq!(key.constants().nth(1), Some(("FROM", 1)));
}

#[test]
fn programs_have_names_of_their_own_and_few_enough_constants() {
    let mut names: Vec<_> = Program::ALL.iter().map(|program| program.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Program::ALL.len());
    assert!(Program::ALL.iter().all(|p| p.constant_names().len() <= crate::MAX_CONSTANTS));
}

/// Kernels are started while the one before still runs, and at most that one may be running: each waits
/// for it before it touches memory, and before it lets the next be started.
#[test]
fn every_kernel_waits_for_the_one_before() {
    for program in Program::ALL {
        let definition = program.definition();
        let kernels = definition.text.matches("KERNEL_").count();
        let (_, body) = definition.text.split_once("KERNEL_").expect("a kernel");
        assert_eq!(kernels, 1, "{}", definition.name);
        let body = body.split_once("{\n").expect("a body").1;
        let declares = |line: &&str| line.starts_with("SHARED ") || line.starts_with("typedef ");
        let first = body.lines().map(str::trim).find(|line| !declares(line)).unwrap_or("");
        match first {
            "const Thread t = THREAD;" => {}
            "const Thread t = EARLY_THREAD;" => {
                let late = body.find("if (p.early == 0) after_the_one_before();");
                let early = body.find("if (p.early != 0) after_the_one_before();");
                let (late, early) = late.zip(early).expect(definition.name);
                // What is read early is fetched from the rhs alone.
                let between = &body[late..early];
                for access in ["load<", "store<", "dst", "(DEVICE V*)", "bias", "residual"] {
                    assert!(!between.contains(access), "{}: {access}", definition.name);
                }
            }
            other => panic!("{}: {other}", definition.name),
        }
    }
    let prelude = Dialect::Cuda.prelude()[0];
    let wait = prelude.find("griddepcontrol.wait").expect("a wait");
    let next = prelude.find("griddepcontrol.launch_dependents").expect("a start");
    assert!(wait < next);
    assert_eq!(prelude.matches("griddepcontrol.").count(), 2);
    let rest = Program::ALL.iter().map(|program| program.definition().text);
    assert!(
        rest.chain(Dialect::Cuda.prelude()[1..].iter().copied())
            .all(|text| { !text.contains("griddepcontrol") })
    );
}

/// Functions and types of Metal's library. A text says `using namespace metal`, so a type of ours with such a name would
/// be ambiguous, and a function might be.
const METAL_NAMES: &str = "abs absdiff acos acosh addsat all any array array_ref as_type asin asinh atan atan2 atanh \
    atomic atomic_bool atomic_int atomic_uint atomic_ulong bfloat ceil clamp clz command_buffer compute_command copysign \
    cos cosh cospi cross ctz degrees depth2d determinant dfdx dfdy discard_fragment distance divide dot exp exp10 exp2 \
    extents extract_bits fabs faceforward fast fdim floor fma fmax fmax3 fmedian3 fmin fmin3 fmod fract frexp fwidth \
    hadd ilogb imageblock insert_bits instance_acceleration_structure interpolant intersector isfinite isinf isnan \
    isnormal isordered isunordered ldexp length length_squared log log10 log2 mad24 madhi madsat matrix max max3 \
    median3 mem_flags memory_order memory_scope mesh min min3 mix modf mul24 mulhi nextafter normalize numeric_limits \
    pack_float_to_snorm4x8 packed_vec patch_control_point popcount pow powr precise quad_broadcast quad_shuffle quad_sum \
    radians ray reflect refract render_command reverse_bits rhadd rint rotate round rsqrt sampler saturate select sign \
    signbit simd_all simd_any simd_ballot simd_broadcast simd_is_first simd_max simd_min simd_prefix_exclusive_sum \
    simd_prefix_inclusive_sum simd_product simd_shuffle simd_shuffle_down simd_shuffle_up simd_shuffle_xor simd_sum \
    simdgroup_barrier simdgroup_load simdgroup_matrix simdgroup_multiply simdgroup_multiply_accumulate simdgroup_store \
    sin sincos sinh sinpi smoothstep sqrt step subsat tan tanh tanpi tensor texture1d texture2d texture3d \
    threadgroup_barrier transpose trunc uniform unpack_unorm4x8_to_float vec visible_function_table wait_any";

#[test]
fn no_name_is_one_of_metals() {
    let known: Vec<&str> = METAL_NAMES.split_whitespace().collect();
    let programs = Program::ALL.iter().map(|program| program.definition());
    let programs = programs.map(|definition| (definition.name, definition.text));
    let shared = Dialect::Metal.prelude().map(|text| ("prelude", text));
    let mut found = 0;
    for (name, text) in programs.chain(shared) {
        let Names { items, macros } = Names::of(text);
        for item in items.iter().chain(&macros) {
            assert!(!known.contains(&item.as_str()), "{name}: {item}");
            found += 1;
        }
    }
    assert!(found > 300, "{found}");
}

#[test]
fn many_kernels_of_metal_share_a_text_without_sharing_names() {
    let keys = [4, 8].map(|size| Key::new(Program::Fill, &[size, 1, 0, 4]));
    let text = source_of_many(&keys, Dialect::Metal);
    for (index, key) in keys.iter().enumerate() {
        assert_eq!(text.matches(&format!("#define ENTRY {}", key.entry())).count(), 1);
        assert_eq!(text.matches(&format!("#define Params Params_{index}\n")).count(), 1);
    }
    for name in ["Params", "SIZE", "ENTRY", "THREADS"] {
        assert_eq!(text.matches(&format!("#undef {name}\n")).count(), 2, "{name}");
    }
    assert!(!text.contains("namespace kernel_"));
}
