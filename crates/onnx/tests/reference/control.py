#!/usr/bin/env python3
"""Loops, branches, sequences, optionals and strings, with onnxruntime's answers. See export.py."""

import numpy

from onnx import TensorProto, helper, parser

from writer import Writer

F = numpy.float32


def text_model(text, opset=21, ml=False):
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')


def arange(*shape, start=0.0, step=0.25, dtype=F):
    count = int(numpy.prod(shape, dtype=int))
    return (start + step * numpy.arange(count)).astype(dtype).reshape(shape)


def loops(writer):
    counted = """
    counted (int64 n, float[a] x) => (float[a] y, float[t, a] rows) {
        yes = Constant <value = bool {1}> ()
        y, rows = Loop (n, yes, x) <body = body (int64 i, bool c, float[a] v) => (bool d, float[a] w, float[a] r) {
            d = Identity (c)
            f = Cast <to = 1> (i)
            w = Add (v, f)
            r = Mul (v, f)
        }>
    }"""
    x = arange(3)
    sets = [{"n": numpy.array(n, numpy.int64), "x": x} for n in (0, 1, 2, 7, 70, 300)]
    writer.add("loop_counted", text_model(counted.replace("float[t, a] rows", "float[t, a] rows")), *sets[1:])
    known = counted.replace("int64 n, float[a] x", "float[a] x").replace(
        "yes = Constant", "n = Constant <value = int64 {%d}> ()\n yes = Constant")
    for n in (0, 1, 5, 64, 65, 200):
        model = text_model((known % n).replace("float[a]", "float[3]").replace("[t, a]", "[t, 3]"))
        writer.add(f"loop_known_{n}", model, {"x": x})
    writer.add("loop_none", text_model(counted.replace("float[a]", "float[3]").replace("[t, a]", "[t, 3]")), sets[0])
    # Until a condition fails; the first condition may fail too.
    until = """
    until (float[a] x, float limit, bool first) => (float[a] y, int64 steps) {
        none = Constant <value = int64 {0}> ()
        y, steps = Loop (, first, x, none) <body = body (int64 i, bool c, float[a] v, int64 s) => (bool d, float[a] w, int64 t) {
            one = Constant <value = int64 {1}> ()
            t = Add (s, one)
            w = Add (v, v)
            m = ReduceMax <keepdims = 0> (w)
            d = Less (m, limit)
        }>
    }"""
    numbers = [(100.0, True), (0.5, True), (1e6, True), (100.0, False)]
    writer.add("loop_until", text_model(until), *[
        {"x": x, "limit": numpy.array(limit, F), "first": numpy.array(first)} for limit, first in numbers])
    # A known count that a condition may end before.
    writer.add("loop_until_known", text_model("""
    both (float[a] x, float limit) => (float[a] y, float[t, a] rows) {
        n = Constant <value = int64 {6}> ()
        y, rows = Loop (n, , x) <body = body (int64 i, bool c, float[a] v) => (bool d, float[a] w, float[a] r) {
            w = Add (v, v)
            r = Neg (v)
            m = ReduceMax <keepdims = 0> (w)
            d = Less (m, limit)
        }>
    }"""), *[{"x": x, "limit": numpy.array(limit, F)} for limit in (0.1, 3.0, 1e6)])
    # A condition that the model itself knows ends a loop.
    writer.add("loop_ends_itself", text_model("""
    ends (float[a] x) => (float[a] y, float[t, a] rows) {
        n = Constant <value = int64 {6}> ()
        y, rows = Loop (n, , x) <body = body (int64 i, bool c, float[a] v) => (bool d, float[a] w, float[a] r) {
            w = Add (v, v)
            r = Neg (v)
            two = Constant <value = int64 {2}> ()
            d = Less (i, two)
        }>
    }"""), {"x": x})
    # What is carried changes its shape, and the loop reads a value of the model around it.
    writer.add("loop_grows", text_model("""
    grows (int64 n, float[a] x, float[b] z) => (float[c] y) {
        yes = Constant <value = bool {1}> ()
        y = Loop (n, yes, x) <body = body (int64 i, bool c, float[q] v) => (bool d, float[r] w) {
            d = Identity (c)
            w = Concat <axis = 0> (v, z)
        }>
    }"""), *[{"n": numpy.array(n, numpy.int64), "x": x, "z": arange(2)} for n in (0, 1, 3, 20)])
    # The number of the iteration is an index and a size.
    writer.add("loop_slices", text_model("""
    slices (int64 n, float[a, b] x) => (float[t, b] y) {
        yes = Constant <value = bool {1}> ()
        y = Loop (n, yes) <body = body (int64 i, bool c) => (bool d, float[b] w) {
            d = Identity (c)
            zero = Constant <value = int64[1] {0}> ()
            one = Constant <value = int64 {1}> ()
            at = Unsqueeze (i, zero)
            j = Add (i, one)
            end = Unsqueeze (j, zero)
            row = Slice (x, at, end, zero)
            up = Slice (x, zero, end, zero)
            sum = ReduceSum <keepdims = 1> (up, zero)
            both = Add (row, sum)
            w = Squeeze (both, zero)
        }>
    }"""), *[{"n": numpy.array(n, numpy.int64), "x": arange(70, 4)} for n in (1, 3, 70)])
    # Loops in loops, and branches in loops.
    writer.add("loop_nested", text_model("""
    nested (int64 n, int64 m, float[a] x) => (float[a] y, float[t, s, a] all) {
        yes = Constant <value = bool {1}> ()
        y, all = Loop (n, yes, x) <body = outer (int64 i, bool c, float[a] v) => (bool d, float[a] w, float[s, a] rows) {
            d = Identity (c)
            w, rows = Loop (m, yes, v) <body = inner (int64 j, bool e, float[a] p) => (bool g, float[a] q, float[a] r) {
                g = Identity (e)
                k = Add (i, j)
                f = Cast <to = 1> (k)
                r = Add (p, f)
                q = Mul (r, x)
            }>
        }>
    }"""), *[{"n": numpy.array(n, numpy.int64), "m": numpy.array(m, numpy.int64), "x": x} for n, m in ((1, 1), (3, 2), (4, 9))])
    writer.add("loop_branches", text_model("""
    branches (int64 n, float[a] x) => (float[a] y) {
        yes = Constant <value = bool {1}> ()
        two = Constant <value = int64 {2}> ()
        zero = Constant <value = int64 {0}> ()
        y = Loop (n, yes, x) <body = body (int64 i, bool c, float[a] v) => (bool d, float[a] w) {
            d = Identity (c)
            rest = Mod (i, two)
            even = Equal (rest, zero)
            w = If (even) <
                then_branch = plus () => (float[a] p) { p = Add (v, x) },
                else_branch = times () => (float[a] q) { q = Mul (v, v) }
            >
        }>
    }"""), *[{"n": numpy.array(n, numpy.int64), "x": x} for n in (0, 1, 6, 9)])
    # Sequences that a loop makes longer, the way torch.jit.script writes lists.
    appends = """
    appends (int64 n, float[a] x) => (float[r, a] y, int64 count, seq(float[a]) all) {
        yes = Constant <value = bool {1}> ()
        empty = SequenceEmpty <dtype = 1> ()
        all = Loop (n, yes, empty) <body = body (int64 i, bool c, seq(float[a]) s) => (bool d, seq(float[a]) t) {
            d = Identity (c)
            f = Cast <to = 1> (i)
            v = Add (x, f)
            t = SequenceInsert (s, v)
        }>
        count = SequenceLength (all)
        y = ConcatFromSequence <axis = 0, new_axis = 1> (all)
    }"""
    writer.add("loop_appends", text_model(appends), *[{"n": numpy.array(n, numpy.int64), "x": x} for n in (1, 3, 40, 300)])
    writer.add("loop_reads_sequence", text_model("""
    reads (float[a, b] x) => (float[b] y) {
        rows = SplitToSequence <axis = 0, keepdims = 0> (x)
        n = SequenceLength (rows)
        yes = Constant <value = bool {1}> ()
        zero = Constant <value = float {0}> ()
        width = Shape <start = 1, end = 2> (x)
        first = Expand (zero, width)
        y = Loop (n, yes, first) <body = body (int64 i, bool c, float[b] v) => (bool d, float[b] w) {
            d = Identity (c)
            row = SequenceAt (rows, i)
            half = Mul (row, row)
            w = Add (v, half)
        }>
    }"""), *[{"x": arange(rows, 3)} for rows in (1, 5, 33, 90)])
    # Element counts that only the data knows, within a loop.
    writer.add("loop_of_nonzero", text_model("""
    nonzero (int64 n, float[a] x) => (float[k] y) {
        yes = Constant <value = bool {1}> ()
        y = Loop (n, yes, x) <body = body (int64 i, bool c, float[q] v) => (bool d, float[r] w) {
            d = Identity (c)
            one = Constant <value = float {1}> ()
            zero = Constant <value = float {0}> ()
            less = Sub (v, one)
            cut = Max (less, zero)
            at = NonZero (cut)
            columns = Transpose <perm = [1, 0]> (at)
            w = GatherND (cut, columns)
        }>
    }"""), *[{"n": numpy.array(n, numpy.int64), "x": arange(9, step=0.75)} for n in (1, 2, 3, 8)])
    # Number and condition of one element along an axis.
    writer.add("loop_of_vectors", text_model("""
    vectors (int64[1] n, bool[1] first, float[a] x) => (float[a] y) {
        y = Loop (n, first, x) <body = body (int64[1] i, bool[1] c, float[a] v) => (bool[1] d, float[a] w) {
            d = Identity (c)
            f = Cast <to = 1> (i)
            w = Add (v, f)
        }>
    }"""), *[{"n": numpy.array([n], numpy.int64), "first": numpy.array([True]), "x": x} for n in (2, 66)])


def scans(writer):
    scan = """
    scan (float[b] first, float[{shape}] x) => (float[b] last, float[{out}] y) {{
        last, y = Scan <num_scan_inputs = 1 {options}, body = body (float[b] s, float[b] e) => (float[b] t, float[b] r) {{
            t = Add (s, e)
            r = Mul (t, e)
        }}> (first, x)
    }}"""
    for options, shape, out in [
        ("", "a, b", "a, b"),
        (", scan_input_directions = [1]", "a, b", "a, b"),
        (", scan_output_directions = [1]", "a, b", "a, b"),
        (", scan_input_axes = [1], scan_output_axes = [1]", "b, a", "b, a"),
        (", scan_input_axes = [-1], scan_output_axes = [-1], scan_input_directions = [1], scan_output_directions = [1]", "b, a", "b, a"),
    ]:
        text = scan.format(options=options, shape=shape, out=out)
        sets = []
        for steps in (1, 5, 64, 77, 1000):
            x = arange(steps, 3, step=0.01) if shape == "a, b" else arange(3, steps, step=0.01)
            sets.append({"first": arange(3), "x": x})
        writer.add(f"scan{options}", text_model(text), *sets)
    writer.add("scan_without_steps", text_model(scan.format(options="", shape="a, b", out="a, b").replace("[b]", "[3]").replace("[a, b]", "[a, 3]")),
               {"first": arange(3), "x": arange(0, 3)})
    # Distances of rows, as scikit-learn's neighbors are exported.
    writer.add("scan_distances", text_model("""
    distances (float[m, k] x, float[n, k] z) => (float[m, n] y) {
        same, y = Scan <num_scan_inputs = 1, body = body (float[n, k] s, float[k] e) => (float[n, k] t, float[n] r) {
            t = Identity (s)
            d = Sub (s, e)
            r = ReduceSumSquare <axes = [1], keepdims = 0> (d)
        }> (z, x)
    }""", opset=11), *[{"x": arange(m, 4, step=0.1), "z": arange(9, 4, step=0.2)} for m in (1, 3, 100, 257)])
    # Two inputs of different directions, a value of the model around it, and no state.
    writer.add("scan_two_inputs", text_model("""
    two (float[a, b] x, float[b, a] z, float[b] w) => (float[a, b] p, float[b, a] q) {
        p, q = Scan <num_scan_inputs = 2, scan_input_axes = [0, 1], scan_input_directions = [0, 1], scan_output_axes = [0, 1],
            body = body (float[b] e, float[b] f) => (float[b] r, float[b] s) {
            sum = Add (e, f)
            r = Mul (sum, w)
            s = Sub (e, f)
        }> (x, z)
    }"""), *[{"x": arange(a, 3), "z": arange(3, a, start=1.0), "w": arange(3, start=2.0)} for a in (1, 4, 130)])
    # The first version: batches, lengths.
    eight = """
    eight (float[n, b] first, float[n, a, b] x) => (float[n, b] last, float[n, a, b] y) {
        last, y = Scan <num_scan_inputs = 1 %s, body = body (float[b] s, float[b] e) => (float[b] t, float[b] r) {
            t = Add (s, e)
            r = Mul (t, e)
        }> (%s, first, x)
    }"""
    sets = [{"first": arange(n, 3), "x": arange(n, a, 3, step=0.1)} for n, a in ((1, 3), (2, 5), (3, 70))]
    writer.add("scan_8", text_model(eight % ("", ""), opset=8), *sets)
    writer.add("scan_8_backwards", text_model(eight % (", directions = [1]", ""), opset=8), *sets)
    lengths = (eight % ("", "lengths")).replace("(float[n, b] first", "(int64[n] lengths, float[n, b] first")
    writer.add("scan_8_lengths", text_model(lengths, opset=8),
               {**sets[1], "lengths": numpy.array([5, 2], numpy.int64)})


def sequences(writer):
    x, z = arange(2, 3), arange(2, 3, start=10.0)
    place = lambda at: numpy.array(at, numpy.int64)
    edits = """
    edits (float[a, b] x, float[a, b] z, int64 at) => (seq(float[a, b]) inserted, seq(float[a, b]) erased, float[a, b] found) {
        two = SequenceConstruct (x, z)
        sum = Add (x, z)
        inserted = SequenceInsert (two, sum, at)
        erased = SequenceErase (inserted, at)
        found = SequenceAt (inserted, at)
    }"""
    writer.add("sequence_edits", text_model(edits), *[{"x": x, "z": z, "at": place(at)} for at in (0, 1, -1, -2)])
    writer.add("sequence_ends", text_model("""
    ends (float[a, b] x, float[a, b] z) => (seq(float[a, b]) y, int64 count) {
        two = SequenceConstruct (x, z, x)
        less = SequenceErase (two)
        y = SequenceInsert (less, z)
        count = SequenceLength (y)
    }"""), {"x": x, "z": z})
    for axis, new in ((0, 0), (1, 0), (-1, 0), (0, 1), (2, 1), (-2, 1)):
        rank = 3 if new else 2
        shape = ", ".join("cdef"[:rank])
        writer.add(f"sequence_concat_{axis}_{new}", text_model(f"""
        concat (float[a, b] x, float[a, b] z) => (float[{shape}] y) {{
            two = SequenceConstruct (x, z)
            y = ConcatFromSequence <axis = {axis}, new_axis = {new}> (two)
        }}"""), {"x": x, "z": z})
    for name, split, options in (
        ("each", "", ""), ("each_flat", "", ", keepdims = 0"), ("by_two", "int64 {2}", ""), ("by_sizes", "int64[3] {1, 0, 6}", ""),
        ("sizes_flat", "int64[2] {3, 4}", ", keepdims = 0"),
    ):
        given = f"split = Constant <value = {split}> ()" if split else ""
        for axis in (0, 1):
            writer.add(f"split_to_sequence_{name}_{axis}", text_model(f"""
            split (float[a, b] x) => (seq(float) y) {{
                {given}
                y = SplitToSequence <axis = {axis} {options}> (x {", split" if split else ""})
            }}"""), {"x": arange(7, 7)})
    writer.add("split_to_sequence_long", text_model("""
    split (float[a, b] x) => (seq(float) y, int64 n, float[b] at) {
        y = SplitToSequence <axis = 0, keepdims = 0> (x)
        n = SequenceLength (y)
        last = Constant <value = int64 {-1}> ()
        at = SequenceAt (y, last)
    }"""), *[{"x": arange(rows, 2)} for rows in (3, 100, 300)])
    writer.add("sequence_given", text_model("""
    given (seq(float[a, b]) s, int64 at) => (float[a, b] y, int64 n, seq(float[a, b]) t) {
        y = SequenceAt (s, at)
        n = SequenceLength (s)
        t = SequenceInsert (s, y, at)
    }"""), *[{"s": [arange(2, 3, start=float(i)) for i in range(count)], "at": place(1)} for count in (2, 5, 50)])
    writer.add("sequence_map", text_model("""
    map (seq(float[a, b]) s, float[a, b] z) => (seq(float[a, b]) y, seq(float[b]) w) {
        y, w = SequenceMap (s, z) <body = body (float[a, b] e, float[a, b] f) => (float[a, b] g, float[b] h) {
            g = Add (e, f)
            zero = Constant <value = int64[1] {0}> ()
            h = ReduceSum <keepdims = 0> (g, zero)
        }>
    }"""), *[{"s": [arange(2, 3, start=float(i)) for i in range(count)], "z": z} for count in (1, 3, 40)])
    writer.add("optional", text_model("""
    optional (float[a] x) => (bool has, float[a] y, bool none) {
        o = Optional (x)
        has = OptionalHasElement (o)
        y = OptionalGetElement (o)
        e = Optional <type = float[a]> ()
        none = OptionalHasElement (e)
    }"""), {"x": arange(3)})
    writer.add("branch_of_sequences", text_model("""
    branch (bool c, float[a, b] x, float[a, b] z) => (seq(float[a, b]) y) {
        y = If (c) <
            then_branch = yes () => (seq(float[a, b]) p) { p = SequenceConstruct (x, z) },
            else_branch = no () => (seq(float[a, b]) q) { q = SequenceConstruct (z) }
        >
    }"""), *[{"c": numpy.array(c), "x": x, "z": z} for c in (True, False)])


def strings(writer):
    words = numpy.array([["a", "bc", "déf"], ["", "a", "bc"]], object)
    other = numpy.array(["x", "", "yz"], object)

    def single(name, op, inputs, outputs, opset=21, domain="", **attributes):
        """A model of one node: inputs and outputs are (name, type, rank)."""
        info = lambda entry: helper.make_tensor_value_info(entry[0], entry[1], [None] * entry[2])
        node = helper.make_node(op, [entry[0] if entry else "" for entry in inputs], [entry[0] for entry in outputs], domain=domain, **attributes)
        graph = helper.make_graph([node], name, [info(entry) for entry in inputs if entry], [info(entry) for entry in outputs])
        imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)

    S, I, B = TensorProto.STRING, TensorProto.INT64, TensorProto.BOOL
    writer.add("string_concat", single("m", "StringConcat", [("a", S, 2), ("b", S, 1)], [("y", S, 2)]), {"a": words, "b": other})
    for delimiter, most in ((None, None), ("", 1), (".", None), (".", 1), ("bc", None), ("..", 2), (None, 0)):
        options = {key: value for key, value in (("delimiter", delimiter), ("maxsplit", most)) if value is not None}
        texts = numpy.array([["a.bc.d", "", "..a"], ["a b  c ", " bc", "a..b..c..d"]], object)
        model = single("m", "StringSplit", [("x", S, 2)], [("y", S, 3), ("n", I, 2)], **options)
        writer.add(f"string_split_{delimiter}_{most}".replace(".", "dot"), model, {"x": texts})
    for number, pattern in enumerate((r"a|bc", r"[a-c]+", r".*", r"d\pLf", r"(?i)BC", r"")):
        model = single("m", "RegexFullMatch", [("x", S, 2)], [("y", B, 2)], pattern=pattern)
        writer.add(f"regex_{number}", model, {"x": words})
    for case in ("LOWER", "UPPER", "NONE"):
        for sensitive in (0, 1):
            for stop in ([], ["Monday", "tuesday"], ["monday", "TUESDAY", "wednesday", "x"]):
                options = {"stopwords": stop} if stop else {}
                model = single("m", "StringNormalizer", [("x", S, 1)], [("y", S, 1)], case_change_action=case, is_case_sensitive=sensitive, locale="C.UTF-8", **options)
                days = numpy.array(["Monday", "tuesday", "Wednesday", "x"], object)
                writer.add(f"normalizer_{case}_{sensitive}_{len(stop)}", model, {"x": days})
    ids = numpy.array([[0, 2, -1], [1, 1, 0]], numpy.int64)
    moved = {
        "Gather": ([("x", S, 2), ("i", I, 1)], 2, {"axis": 1}, {"i": numpy.array([2, 0], numpy.int64)}),
        "GatherElements": ([("x", S, 2), ("i", I, 2)], 2, {"axis": 1}, {"i": ids}),
        "GatherND": ([("x", S, 2), ("i", I, 2)], 1, {}, {"i": numpy.array([[0, 1], [1, 2]], numpy.int64)}),
        "Reshape": ([("x", S, 2), ("i", I, 1)], 3, {}, {"i": numpy.array([3, 1, 2], numpy.int64)}),
        "Transpose": ([("x", S, 2)], 2, {}, {}),
        "Expand": ([("x", S, 2), ("i", I, 1)], 3, {}, {"i": numpy.array([2, 1, 1], numpy.int64)}),
        "Tile": ([("x", S, 2), ("i", I, 1)], 2, {}, {"i": numpy.array([2, 2], numpy.int64)}),
        "Unsqueeze": ([("x", S, 2), ("i", I, 1)], 3, {}, {"i": numpy.array([1], numpy.int64)}),
        "Flatten": ([("x", S, 2)], 2, {"axis": 0}, {}),
        "Shape": ([("x", S, 2)], 1, {}, {}),
        "Size": ([("x", S, 2)], 0, {}, {}),
        "Identity": ([("x", S, 2)], 2, {}, {}),
        "Concat": ([("x", S, 2), ("z", S, 2)], 2, {"axis": 0}, {"z": words[:1]}),
        "Where": ([("i", B, 2), ("x", S, 2), ("z", S, 1)], 2, {}, {"i": ids > 0, "z": other}),
        "Equal": ([("x", S, 2), ("z", S, 1)], 2, {}, {"z": numpy.array(["a", "a", "bc"], object)}),
        "Compress": ([("x", S, 2), ("i", B, 1)], 2, {"axis": 1}, {"i": numpy.array([True, False, True])}),
        "ScatterElements": ([("x", S, 2), ("i", I, 2), ("z", S, 2)], 2, {"axis": 1}, {"i": ids[:, :1], "z": numpy.array([["p"], ["q"]], object)}),
        "Slice": ([("x", S, 2), ("i", I, 1), ("j", I, 1)], 2, {}, {"i": numpy.array([0, 1], numpy.int64), "j": numpy.array([2, 3], numpy.int64)}),
    }
    for op, (inputs, rank, options, more) in moved.items():
        kind = {"Equal": B, "Shape": I, "Size": I}.get(op, S)
        writer.add(f"strings_{op}", single("m", op, inputs, [("y", kind, rank)], opset=17 if op in ("Flatten",) else 19, **options), {"x": words, **more})
    for ordered in (0, 1):
        model = single("m", "Unique", [("x", S, 2)], [("y", S, 1), ("f", I, 1), ("i", I, 1), ("n", I, 1)], opset=19, sorted=ordered)
        writer.add(f"strings_Unique_{ordered}", model, {"x": words})
    # Whole numbers and long ones are left out: onnxruntime writes 3 where ONNX wants 3.0, and eight digits.
    for kind, value in ((TensorProto.FLOAT, numpy.array([0.1, -1.5, 1e20, float("nan"), float("-inf")], F)),
                        (TensorProto.DOUBLE, numpy.array([0.1, 1e-7])),
                        (TensorProto.INT64, numpy.array([0, -12, 2**62])), (TensorProto.BOOL, numpy.array([True, False]))):
        writer.add(f"cast_to_string_{kind}", single("m", "Cast", [("x", kind, 1)], [("y", S, 1)], opset=19, to=S), {"x": value})
    for kind in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.INT32):
        texts = ["1", "-2", "30"] if kind > 5 and kind != TensorProto.DOUBLE else ["1", "-2.5", "1e-3", "NaN", "-INF", "+inf"]
        writer.add(f"cast_from_string_{kind}", single("m", "Cast", [("x", S, 1)], [("y", kind, 1)], opset=19, to=kind), {"x": numpy.array(texts, object)})
    for mode in ("TF", "IDF", "TFIDF"):
        for skips in (0, 1, 5):
            for low, high in ((1, 1), (2, 2), (1, 2), (1, 3)):
                pool = dict(ngram_counts=[0, 3, 7], ngram_indexes=[4, 0, 1, 2, 3, 5], mode=mode, max_skip_count=skips, min_gram_length=low, max_gram_length=high)
                numbers = [2, 3, 5, 2, 3, 5, 7, 2, 3, 5]
                weights = {"weights": [0.5, 2.0, 3.0, 0.25, 7.0, 1.5]}
                row = numpy.array([[2, 3, 5, 7, 2, 3], [5, 2, 2, 3, 3, 5]], numpy.int64)
                writer.add(f"tf_idf_{mode}_{skips}_{low}_{high}", single("m", "TfIdfVectorizer", [("x", I, 2)], [("y", 1, 2)], pool_int64s=numbers, **pool), {"x": row})
                writer.add(f"tf_idf_weights_{mode}_{skips}_{low}_{high}", single("m", "TfIdfVectorizer", [("x", I, 1)], [("y", 1, 1)], pool_int64s=numbers, **weights, **pool), {"x": row[0]})
                texts = numpy.array([[str(value) for value in line] for line in row], object)
                writer.add(f"tf_idf_texts_{mode}_{skips}_{low}_{high}", single("m", "TfIdfVectorizer", [("x", S, 2)], [("y", 1, 2)], pool_strings=[str(n) for n in numbers], **weights, **pool), {"x": texts})
    lines = numpy.array(["Hello, dear world!", "abc  def", "", "a-b c"], object)
    for mark in (0, 1):
        for name, options in (("chars", {"separators": [""]}), ("spaces", {"separators": [" "]}), ("several", {"separators": [",", " ", "-"]}), ("words", {"tokenexp": r"\w+"}), ("pieces", {"separators": [r"[,\s]+"]})):
            for fewest in (1, 2):
                model = single("m", "Tokenizer", [("x", S, 1)], [("y", S, 2)], domain="com.microsoft", mark=mark, pad_value="#", mincharnum=fewest, **options)
                writer.add(f"tokenizer_{name}_{mark}_{fewest}", model, {"x": lines})


def main():
    writer = Writer("control")
    loops(writer)
    scans(writer)
    sequences(writer)
    strings(writer)
    writer.finish()
