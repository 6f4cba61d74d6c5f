"""Single nodes of com.microsoft, and of ONNX's own domain where only onnxruntime has them, with its answers. See export.py."""

import itertools

import ml_dtypes
import numpy

from onnx import TensorProto, helper, numpy_helper

from writer import Writer, tensor

F = numpy.float32
TYPES = {
    numpy.dtype(F): TensorProto.FLOAT, numpy.dtype(numpy.float16): TensorProto.FLOAT16, numpy.dtype(numpy.float64): TensorProto.DOUBLE,
    numpy.dtype(numpy.uint8): TensorProto.UINT8, numpy.dtype(numpy.int8): TensorProto.INT8, numpy.dtype(numpy.int32): TensorProto.INT32,
    numpy.dtype(numpy.int64): TensorProto.INT64, numpy.dtype(bool): TensorProto.BOOL, numpy.dtype(ml_dtypes.int4): TensorProto.INT4,
    numpy.dtype(ml_dtypes.uint4): TensorProto.UINT4, numpy.dtype(numpy.uint32): TensorProto.UINT32, numpy.dtype(numpy.uint16): TensorProto.UINT16, numpy.dtype(numpy.int16): TensorProto.INT16,
}


class Cases:
    """Makes models of one node. Inputs are arrays; those whose name begins with a capital letter are initializers."""

    def __init__(self, writer):
        self.writer = writer
        self.random = numpy.random.default_rng(7)

    def floats(self, *shape, scale=1.0, dtype=F):
        return (self.random.standard_normal(shape) * scale).astype(dtype)

    def integers(self, low, high, *shape, dtype=numpy.uint8):
        return self.random.integers(low, high, shape).astype(dtype)

    def add(self, name, op, inputs, outputs, domain="com.microsoft", opset=17, more=(), answers=None, level=None, **attributes):
        """`inputs` are (name, array) or None; `outputs` are element types; `more` are further data sets."""
        names = [entry[0] if entry else "" for entry in inputs]
        while names and not names[-1]:
            names.pop()
        given = {entry[0]: entry[1] for entry in inputs if entry}
        called = {key: value for key, value in given.items() if key[0].islower()}
        infos = [helper.make_tensor_value_info(key, TYPES[value.dtype], [None] * value.ndim) for key, value in called.items()]
        made = [f"out{index}" if kind else "" for index, kind in enumerate(outputs)]
        declared = [helper.make_tensor_value_info(key, kind, None) for key, kind in zip(made, outputs) if kind]
        kept = [tensor(numpy.asarray(value), key) for key, value in given.items() if not key[0].islower()]
        node = helper.make_node(op, names, made, domain=domain, **attributes)
        graph = helper.make_graph([node], "model", infos, declared, kept)
        imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        self.writer.add(name, model, called, *more, answers=answers, level=level)


T = TensorProto


def activations(cases):
    x, bias = cases.floats(3, 5, 8, scale=2), cases.floats(8)
    for op in ("Gelu", "QuickGelu", "FastGelu"):
        cases.add(op, op, [("x", x)], [T.FLOAT])
    for alpha in (1.0, 0.5):
        cases.add(f"QuickGelu_{alpha}", "QuickGelu", [("x", x)], [T.FLOAT], alpha=alpha)
    for op in ("FastGelu", "BiasGelu"):
        cases.add(f"{op}_bias", op, [("x", x), ("b", bias)], [T.FLOAT])
    for axis, inner, shape in ((2, 1, (1, 1, 8)), (1, 1, (1, 5, 8)), (2, 1, (1, 5, 8))):
        cases.add(f"BiasSoftmax_{axis}_{inner}", "BiasSoftmax", [("x", x), ("b", cases.floats(*shape))], [T.FLOAT], axis=axis, is_inner_broadcast=inner) if (axis, shape) != (2, (1, 5, 8)) else None
    for axis in (0, 1, -1, -3):
        cases.add(f"ExpandDims_{axis}", "ExpandDims", [("x", x), ("a", numpy.array(axis, numpy.int32))], [T.FLOAT])
    skip = cases.floats(3, 5, 8)
    cases.add("BiasAdd", "BiasAdd", [("x", x), ("b", bias), ("s", skip)], [T.FLOAT], answers=[[x + bias + skip]])
    old = dict(domain="", opset=9)
    cases.add("Affine", "Affine", [("x", x)], [T.FLOAT], alpha=2.5, beta=-1.0, **old)
    cases.add("Affine_default", "Affine", [("x", x)], [T.FLOAT], **old)
    cases.add("ParametricSoftplus", "ParametricSoftplus", [("x", x)], [T.FLOAT], alpha=2.5, beta=0.5, **old)
    cases.add("ScaledTanh", "ScaledTanh", [("x", x)], [T.FLOAT], alpha=2.5, beta=0.5, **old)
    cases.add("Scale", "Scale", [("x", x)], [T.FLOAT], scale=0.25, **old)
    image = cases.floats(2, 3, 6, 7)
    cases.add("ImageScaler", "ImageScaler", [("x", image)], [T.FLOAT], scale=2.0, bias=[1.0, -2.0, 0.5], **old)
    cases.add("Crop", "Crop", [("x", image)], [T.FLOAT], border=[1, 2, 3, 1], **old)
    cases.add("Crop_sized", "Crop", [("x", image)], [T.FLOAT], border=[1, 2, 0, 0], scale=[3, 4], **old)


def norms(cases):
    x, skip = cases.floats(2, 5, 16), cases.floats(2, 5, 16)
    weight, beta, bias = cases.floats(16), cases.floats(16), cases.floats(16)
    for with_beta, with_bias, wide in itertools.product((0, 1), (0, 1), (0, 1)):
        other = skip[:1] if wide else skip
        inputs = [("x", x), ("s", other), ("W", weight), ("B", beta) if with_beta else None, ("C", bias) if with_bias else None]
        cases.add(f"SkipLayerNormalization_{with_beta}{with_bias}{wide}", "SkipLayerNormalization", inputs, [T.FLOAT, None, None, T.FLOAT], epsilon=1e-5)
        if with_beta:
            continue
        inputs = [("x", x), ("s", other), ("W", weight), ("C", bias) if with_bias else None]
        cases.add(f"SkipSimplified_{with_bias}{wide}", "SkipSimplifiedLayerNormalization", inputs, [T.FLOAT, None, None, T.FLOAT], epsilon=1e-5)
    for axis in (-1, 1):
        width = weight if axis == -1 else cases.floats(5, 16)
        cases.add(f"SimplifiedLayerNormalization_{axis}", "SimplifiedLayerNormalization", [("x", x), ("W", width)], [T.FLOAT, T.FLOAT], domain="", axis=axis, epsilon=1e-6)
    ids, segments = cases.integers(0, 20, 2, 6, dtype=numpy.int32), cases.integers(0, 2, 2, 6, dtype=numpy.int32)
    words, places, kinds = cases.floats(20, 16), cases.floats(10, 16), cases.floats(2, 16)
    mask = numpy.array([[1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0]], numpy.int32)
    positions = cases.integers(0, 10, 2, 6, dtype=numpy.int32)
    for segmented, masked, positioned in itertools.product((0, 1), (0, 1), (0, 1)):
        inputs = [("i", ids), ("s", segments) if segmented else None, ("W", words), ("P", places), ("S", kinds) if segmented else None, ("G", weight), ("B", beta),
                  ("m", mask) if masked else None, ("p", positions) if positioned else None]
        cases.add(f"EmbedLayerNormalization_{segmented}{masked}{positioned}", "EmbedLayerNormalization", inputs, [T.FLOAT, T.INT32, T.FLOAT], epsilon=1e-5)
    inputs = [("i", ids), None, ("W", words), ("P", places), ("S", kinds), ("G", weight), ("B", beta)]
    cases.add("EmbedLayerNormalization_first_segment", "EmbedLayerNormalization", inputs, [T.FLOAT, T.INT32], epsilon=1e-5)
    for kind, segmented, masked in itertools.product((numpy.uint8, numpy.int8), (0, 1), (0, 1)):
        low = numpy.iinfo(kind).min
        number = lambda value: numpy.array(value, F)
        zero = lambda value: numpy.array(low + value, kind)
        table = lambda *shape: cases.integers(low, low + 256, *shape, dtype=kind)
        inputs = [("i", ids), ("s", segments) if segmented else None, ("W", table(20, 16)), ("P", table(10, 16)), ("S", table(2, 16)) if segmented else None,
                  ("G", table(16)), ("B", table(16)), ("m", mask) if masked else None, ("WS", number(0.02)), ("PS", number(0.01)), ("SS", number(0.03)) if segmented else None,
                  ("GS", number(0.015)), ("BS", number(0.025)), ("WZ", zero(120)), ("PZ", zero(130)), ("SZ", zero(90)) if segmented else None, ("GZ", zero(50)), ("BZ", zero(128))]
        cases.add(f"QEmbedLayerNormalization_{numpy.dtype(kind).name}_{segmented}{masked}", "QEmbedLayerNormalization", inputs, [T.FLOAT, T.INT32], epsilon=1e-5)
    image = cases.floats(2, 4, 5, 8)
    for act in (0, 1):
        cases.add(f"GroupNorm_{act}", "GroupNorm", [("x", image), ("G", cases.floats(8)), ("B", cases.floats(8))], [T.FLOAT], groups=4, activation=act, channels_last=1)


def sampling(cases):
    cases.add("Unique", "Unique", [("x", numpy.round(cases.floats(12)))], [T.FLOAT, T.INT64, T.INT64])
    modes = itertools.product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (0, 1))
    image, grid = cases.floats(2, 3, 5, 6), cases.floats(2, 4, 4, 2, scale=0.9)
    for mode, padding, align in modes:
        options = {"mode": mode, "padding_mode": padding, "align_corners": align}
        for domain in ("", "com.microsoft"):
            cases.add(f"GridSample_{mode}_{padding}_{align}_{domain or 'onnx'}", "GridSample", [("x", image), ("g", grid)], [T.FLOAT], domain=domain, **options)
    # Coordinates and sizes are those of f32: 20 / 12 makes 20 of 12, and 1.1 leaves 5 as they are.
    image = cases.floats(1, 2, 12, 5)
    for mode, coordinates in itertools.product(("nearest", "linear", "cubic"), ("half_pixel", "asymmetric", "pytorch_half_pixel")):
        options = {"mode": mode, "coordinate_transformation_mode": coordinates, "domain": ""}
        if mode == "nearest":
            options["nearest_mode"] = "floor"
        for number, scales in enumerate(([20 / 12, 1.1], [1 / 3, 2 / 3], [7 / 3, 1.3])):
            cases.add(f"Resize_{mode}_{coordinates}_{number}", "Resize", [("x", image), None, ("S", numpy.array([1, 1, *scales], F))], [T.FLOAT], **options)
        wide = cases.floats(1, 1, 113, 224)
        cases.add(f"Resize_{mode}_{coordinates}_sizes", "Resize", [("x", wide), None, None, ("S", numpy.array([1, 1, 300, 512]))], [T.FLOAT], **options)


def products(cases):
    for ta, tb, alpha in itertools.product((0, 1), (0, 1), (1.0, 0.125)):
        a = cases.floats(2, 3, 6, 4) if ta else cases.floats(2, 3, 4, 6)
        b = cases.floats(2, 3, 5, 6) if tb else cases.floats(2, 3, 6, 5)
        cases.add(f"FusedMatMul_{ta}{tb}_{alpha}", "FusedMatMul", [("a", a), ("b", b)], [T.FLOAT], transA=ta, transB=tb, alpha=alpha)
        b = cases.floats(5, 6) if tb else cases.floats(6, 5)
        cases.add(f"FusedMatMul_weights_{ta}{tb}_{alpha}", "FusedMatMul", [("a", a), ("B", b)], [T.FLOAT], transA=ta, transB=tb, alpha=alpha)
    for ta, tb, ba, bb in itertools.product((0, 1), repeat=4):
        if not (ba or bb):
            continue
        # [batch, m, k] with batches in the middle: [m, batch, k].
        a = numpy.swapaxes(cases.floats(3, 6, 4) if ta else cases.floats(3, 4, 6), 0, 1) if ba else (cases.floats(3, 6, 4) if ta else cases.floats(3, 4, 6))
        b = numpy.swapaxes(cases.floats(3, 5, 6) if tb else cases.floats(3, 6, 5), 0, 1) if bb else (cases.floats(3, 5, 6) if tb else cases.floats(3, 6, 5))
        cases.add(f"FusedMatMul_batches_{ta}{tb}{ba}{bb}", "FusedMatMul", [("a", numpy.ascontiguousarray(a)), ("b", numpy.ascontiguousarray(b))], [T.FLOAT],
                  transA=ta, transB=tb, transBatchA=ba, transBatchB=bb)
    a, b, c = cases.floats(4, 6), cases.floats(6, 5), cases.floats(5)
    for name, options in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Tanh", {}), ("Sigmoid", {}), ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}),
                          ("Elu", {"activation_alpha": 0.5}), ("ThresholdedRelu", {"activation_alpha": 0.5}), ("Softplus", {}), ("Softsign", {})):
        cases.add(f"FusedGemm_{name}", "FusedGemm", [("a", a), ("B", b), ("C", c)], [T.FLOAT], activation=name, alpha=0.5, beta=2.0, **options)
    cases.add("FusedGemm_turned", "FusedGemm", [("a", a.T.copy()), ("B", b.T.copy())], [T.FLOAT], activation="Relu", transA=1, transB=1)
    cases.add("FusedGemm_plain", "FusedGemm", [("a", a), ("B", b), ("C", c)], [T.FLOAT])
    image, weight, bias, other = cases.floats(2, 4, 9, 8), cases.floats(6, 4, 3, 3), cases.floats(6), cases.floats(2, 6, 9, 8)
    for name, params in (("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.75]), ("HardSigmoid", [0.3, 0.4])):
        options = {"activation_params": params} if params else {}
        for summed in (0, 1):
            inputs = [("x", image), ("W", weight), ("B", bias), ("z", other) if summed else None]
            cases.add(f"FusedConv_{name}_{summed}", "FusedConv", inputs, [T.FLOAT], activation=name, pads=[1, 1, 1, 1], **options)
    cases.add("FusedConv_plain", "FusedConv", [("x", image), ("W", weight)], [T.FLOAT], strides=[2, 1])


def rare(cases):
    for dtype, kind in ((F, T.FLOAT), (numpy.float64, T.DOUBLE)):
        for metric in ("euclidean", "sqeuclidean"):
            cases.add(f"CDist_{metric}_{kind}", "CDist", [("a", cases.floats(4, 6, dtype=dtype)), ("b", cases.floats(5, 6, dtype=dtype))], [kind], metric=metric)
        matrices = cases.floats(2, 3, 5, 5, dtype=dtype) + 4 * numpy.eye(5, dtype=dtype)
        cases.add(f"Inverse_{kind}", "Inverse", [("x", matrices)], [kind])
        cases.add(f"Inverse_turned_{kind}", "Inverse", [("x", numpy.eye(4, dtype=dtype)[[2, 0, 3, 1]])], [kind])
    x, weight, bias = cases.floats(1, 3, 5, 4), cases.floats(3, 2, 3, 3), cases.floats(2)
    for pads, biased in itertools.product(((0, 0, 0, 0), (1, 0, 0, 1)), (0, 1)):
        inputs = [("x", x), ("W", weight), ("p", numpy.array(pads, numpy.int64)), ("B", bias) if biased else None]
        cases.add(f"ConvTransposeWithDynamicPads_{sum(pads)}{biased}", "ConvTransposeWithDynamicPads", inputs, [T.FLOAT], strides=[2, 1])
    boxes, which = numpy.array([[0, 0, 1, 1], [0.2, 0.7, 0.9, 0.1], [-0.3, 0.5, 0.6, 1.4]], F), numpy.array([1, 0, 1], numpy.int32)
    for mode, size in itertools.product(("bilinear", "nearest"), ((3, 4), (1, 7))):
        inputs = [("x", cases.floats(2, 3, 6, 5)), ("b", boxes), ("i", which), ("s", numpy.array(size, numpy.int32))]
        cases.add(f"CropAndResize_{mode}_{size[0]}", "CropAndResize", inputs, [T.FLOAT], mode=mode, extrapolation_value=-2.5)
    for dtype, positive in itertools.product((numpy.uint32, numpy.int32, numpy.int64, F, numpy.float64), (0, 1)):
        inputs = [("x", cases.floats(3, 4, scale=100).astype(numpy.int64).astype(dtype))]
        cases.add(f"MurmurHash3_{numpy.dtype(dtype).name}_{positive}", "MurmurHash3", inputs, [T.UINT32 if positive else T.INT32], positive=positive, seed=7 * positive)


def integer_products(cases):
    x = cases.floats(3, 4, 32)
    for kind, per_column, zero, bias in itertools.product((numpy.uint8, numpy.int8), (0, 1), (0, 1), (0, 1)):
        # 7 bits: onnxruntime's sums saturate on some machines.
        low, high = (64, 192) if kind == numpy.uint8 else (-64, 64)
        b = cases.integers(low, high, 32, 6, dtype=kind)
        scale = numpy.abs(cases.floats(6)) * F(0.01) + F(0.001) if per_column else numpy.array(0.0125, F)
        zeros = (cases.integers(low, high, 6, dtype=kind) if per_column else numpy.array(high - 60, kind))
        inputs = [("x", x), ("B", b), ("S", scale), ("Z", zeros) if zero else None, ("C", cases.floats(6)) if bias else None]
        name = f"{numpy.dtype(kind).name}_{per_column}{zero}{bias}"
        cases.add(f"DynamicQuantizeMatMul_{name}", "DynamicQuantizeMatMul", inputs, [T.FLOAT])
        a = cases.integers(0, 128, 3, 4, 32)
        inputs = [("a", a), ("B", b), ("s", numpy.array(0.02, F)), ("S", scale), ("z", numpy.array(60, numpy.uint8)) if zero else None, ("Z", zeros) if zero else None, ("C", cases.floats(6)) if bias else None]
        cases.add(f"MatMulIntegerToFloat_{name}", "MatMulIntegerToFloat", inputs, [T.FLOAT])
        for requantized in (0, 1):
            c = cases.integers(-500, 500, 6, dtype=numpy.int32)
            inputs = [("a", a[0]), ("s", numpy.array(0.02, F)), ("z", numpy.array(60, numpy.uint8)), ("B", b), ("S", scale), ("Z", zeros), ("C", c) if bias else None,
                      ("Y", numpy.array(0.05, F)) if requantized else None, ("Q", numpy.array(100, numpy.uint8)) if requantized else None]
            cases.add(f"QGemm_{name}_{requantized}", "QGemm", inputs, [T.UINT8 if requantized else T.FLOAT], alpha=0.75 if zero else 1.0)
    b = cases.integers(-64, 64, 6, 32, dtype=numpy.int8)
    cases.add("QGemm_turned", "QGemm", [("a", cases.integers(0, 128, 32, 4)), ("s", numpy.array(0.02, F)), ("z", numpy.array(60, numpy.uint8)), ("B", b), ("S", numpy.array(0.01, F)),
                                        ("Z", numpy.array(3, numpy.int8))], [T.FLOAT], transA=1, transB=1)


def blocks(cases):
    for bits, block, k, zero, bias in itertools.product((2, 4, 8), (16, 32, 128, 256), (64, 100), (0, 1, 2), (0, 1)):
        if bits == 2 and (block > 128 or zero == 2):
            continue
        n, count = 7, -(-k // block)
        size = block * bits // 8
        scales = (numpy.abs(cases.floats(n * count)) * 0.1 + 0.01).astype(F)
        zeros = [None, ("Z", cases.integers(0, 256, n * -(-count * bits // 8))), ("Z", cases.floats(n * count, scale=3))][zero]
        inputs = [("x", cases.floats(2, 3, k)), ("B", cases.integers(0, 256, n, count, size)), ("S", scales), zeros, None, ("C", cases.floats(n)) if bias else None]
        cases.add(f"MatMulNBits_{bits}_{block}_{k}_{zero}{bias}", "MatMulNBits", inputs, [T.FLOAT], K=k, N=n, bits=bits, block_size=block, accuracy_level=1)
    k, n, block = 64, 5, 16
    order = numpy.sort(cases.integers(0, 4, 64, dtype=numpy.int32))
    x, packed, scales, zeros = cases.floats(3, k), cases.integers(0, 256, n, 4, 8), cases.floats(n * 4), cases.integers(0, 256, n * 2)
    halves = lambda bytes, width: numpy.stack([bytes & 15, bytes >> 4], -1).reshape(n, width).astype(F)
    weights = (halves(packed, k) - halves(zeros.reshape(n, 2), 4)[:, order]) * scales.reshape(n, 4)[:, order]
    # onnxruntime takes scales and zero points of other groups here: the answer is that of the operator's definition.
    cases.add("MatMulNBits_groups", "MatMulNBits", [("x", x), ("B", packed), ("S", scales), ("Z", zeros), ("G", order)],
              [T.FLOAT], K=k, N=n, bits=4, block_size=block, answers=[[x @ weights.T]])
    cases.add("MatMulNBits_large_blocks", "MatMulNBits", [("x", cases.floats(3, 1200)), ("B", cases.integers(0, 256, 4, 3, 256)), ("S", cases.floats(12)), ("Z", cases.integers(0, 256, 8))],
              [T.FLOAT], K=1200, N=4, bits=4, block_size=512)
    # Only with transB: without it onnxruntime reads memory that it did not write.
    for kind, (n, k) in itertools.product((0, 1), ((7, 64), (5, 33))):
        inputs = [("x", cases.floats(2, 3, k)), ("B", cases.integers(0, 256, -(-n * k // 2))), ("S", numpy.abs(cases.floats(-(-n * k // 16))))]
        cases.add(f"MatMulBnb4_{kind}_{k}", "MatMulBnb4", inputs, [T.FLOAT], K=k, N=n, block_size=16, quant_type=kind)
    ids = numpy.array([[3, 0, 9], [1, 1, 4]], numpy.int64)
    for kind, zero in itertools.product((ml_dtypes.int4, ml_dtypes.uint4), (0, 1)):
        low = -8 if kind == ml_dtypes.int4 else 0
        table = cases.random.integers(low, low + 16, (10, 64)).astype(kind)
        zeros = cases.random.integers(low, low + 16, (10, 4)).astype(kind)
        inputs = [("D", table), ("i", ids), ("S", cases.floats(10, 4)), ("Z", zeros) if zero else None]
        cases.add(f"GatherBlockQuantized_{numpy.dtype(kind).name}_{zero}", "GatherBlockQuantized", inputs, [T.FLOAT], opset=21, block_size=16, gather_axis=0, quantize_axis=1)
    table = cases.random.integers(-8, 8, (6, 10, 8)).astype(ml_dtypes.int4)
    cases.add("GatherBlockQuantized_axes", "GatherBlockQuantized", [("D", table), ("i", numpy.array([5, 2, -1], numpy.int32)), ("S", cases.floats(1, 10, 8))], [T.FLOAT], opset=21, block_size=16, gather_axis=1, quantize_axis=0)
    for bits, zero in itertools.product((2, 4, 8), (0, 1)):
        table = cases.integers(0, 256, 10, 64 * bits // 8)
        zeros = cases.integers(0, 256, 10, 4 * bits // 8)
        cases.add(f"GatherBlockQuantized_bytes_{bits}_{zero}", "GatherBlockQuantized", [("D", table), ("i", ids), ("S", cases.floats(10, 4)), ("Z", zeros) if zero else None], [T.FLOAT],
                  opset=21, bits=bits, block_size=16, gather_axis=0, quantize_axis=1)


def quantized(cases):
    for kind in (numpy.uint8, numpy.int8):
        name = numpy.dtype(kind).name
        low, high = (0, 256) if kind == numpy.uint8 else (-128, 128)
        out = TYPES[numpy.dtype(kind)]
        number = lambda value: numpy.array(value, F)
        zero = lambda value: numpy.array(value + low, kind)
        a, b = cases.integers(low, high, 2, 3, 8, dtype=kind), cases.integers(low, high, 2, 3, 8, dtype=kind)
        for op in ("QLinearAdd", "QLinearMul"):
            for wide in (0, 1):
                other = b[0, :1] if wide else b
                inputs = [("a", a), ("sa", number(0.02)), ("za", zero(100)), ("b", other), ("sb", number(0.03)), ("zb", zero(140)), ("sc", number(0.045)), ("zc", zero(120))]
                cases.add(f"{op}_{name}_{wide}", op, inputs, [out])
            inputs = [("a", a), ("sa", number(0.02)), None, ("b", b), ("sb", number(0.03)), None, ("sc", number(0.5)), None]
            cases.add(f"{op}_{name}_zeroless", op, inputs, [out])
        around = [("x", a), ("sx", number(0.05)), ("zx", zero(128)), ("sy", number(1 / 256)), ("zy", zero(0))]
        cases.add(f"QLinearSigmoid_{name}", "QLinearSigmoid", around, [out])
        cases.add(f"QLinearLeakyRelu_{name}", "QLinearLeakyRelu", around[:3] + [("sy", number(0.05)), ("zy", zero(100))], [out], alpha=0.1)
        for opset, axis in ((13, -1), (13, 1), (11, 1), (12, 2)):
            cases.add(f"QLinearSoftmax_{name}_{opset}_{axis}", "QLinearSoftmax", around, [out], opset=17, axis=axis, **{"opset_": opset} if False else {"domain": "com.microsoft"}) if False else None
            softmax(cases, f"QLinearSoftmax_{name}_{opset}_{axis}", around, out, opset, axis)
        inputs = [("S", number(0.04)), ("Z", zero(110)), ("a", a), ("SA", number(0.02)), ("ZA", zero(100)), ("b", b), ("SB", number(0.05)), ("ZB", zero(130))]
        for axis in (0, 1, -1):
            cases.add(f"QLinearConcat_{name}_{axis}", "QLinearConcat", inputs, [out], axis=axis)
        condition = cases.integers(0, 2, 2, 3, 8).astype(bool)
        inputs = [("c", condition), ("a", a), ("SA", number(0.02)), ("ZA", zero(100)), ("b", b), ("SB", number(0.05)), ("ZB", zero(130)), ("S", number(0.04)), ("Z", zero(110))]
        cases.add(f"QLinearWhere_{name}", "QLinearWhere", inputs, [out])
        image = cases.integers(low, high, 2, 6, 7, 3 if True else 3, dtype=kind)
        ends = [("sx", number(0.02)), ("zx", zero(100)), ("sy", number(0.018)), ("zy", zero(90))]
        for last in (0, 1):
            cases.add(f"QLinearAveragePool_{name}_{last}", "QLinearAveragePool", [("x", image)] + ends, [out], kernel_shape=[2, 3], strides=[2, 1], pads=[1, 0, 0, 1], channels_last=last)
            cases.add(f"QLinearGlobalAveragePool_{name}_{last}", "QLinearGlobalAveragePool", [("x", image)] + ends, [out], channels_last=last)
        cases.add(f"QLinearReduceMean_{name}", "QLinearReduceMean", [("x", image)] + ends, [out], axes=[1, 2], keepdims=1)
        cases.add(f"QLinearReduceMean_{name}_flat", "QLinearReduceMean", [("x", image)] + ends, [out], axes=[-1], keepdims=0)
        cases.add(f"NhwcMaxPool_{name}", "NhwcMaxPool", [("x", image)], [out], kernel_shape=[2, 3], strides=[2, 1], pads=[1, 0, 0, 1])
        weight = cases.integers(-64, 64, 4, 3, 3, 3, dtype=numpy.int8)
        for last in (0, 1):
            picture = image if last else numpy.ascontiguousarray(image.transpose(0, 3, 1, 2))
            inputs = [("x", picture), ("SX", number(0.02)), ("ZX", zero(100)), ("W", weight), ("SW", numpy.abs(cases.floats(4)) * F(0.02) + F(0.01)), ("ZW", numpy.zeros(4, numpy.int8)),
                      ("SY", number(0.1)), ("ZY", zero(128)), ("B", cases.integers(-300, 300, 4, dtype=numpy.int32))]
            cases.add(f"QLinearConv_{name}_{last}", "QLinearConv", inputs, [out], channels_last=last, pads=[1, 1, 1, 1])
    for kind, low, high in ((numpy.uint16, 0, 65536), (numpy.int16, -32768, 32768), (numpy.uint8, 0, 256), (numpy.int8, -128, 128)):
        name = numpy.dtype(kind).name
        x = cases.floats(4, 6, scale=3)
        for per_axis in (0, 1):
            scale = numpy.abs(cases.floats(6)) * F(0.05) + F(0.01) if per_axis else numpy.array(0.03, F)
            zeros = cases.integers(low, high, 6, dtype=kind) if per_axis else numpy.array(low + (high - low) // 2 + 3, kind)
            options = {"axis": 1} if per_axis else {}
            cases.add(f"QuantizeLinear_{name}_{per_axis}", "QuantizeLinear", [("x", x), ("S", scale), ("Z", zeros)], [TYPES[numpy.dtype(kind)]], **options)
            cases.add(f"DequantizeLinear_{name}_{per_axis}", "DequantizeLinear", [("x", cases.integers(low, high, 4, 6, dtype=kind)), ("S", scale), ("Z", zeros)], [T.FLOAT], **options)


def softmax(cases, name, inputs, out, opset, axis):
    """The attribute `opset` of QLinearSoftmax is named like an argument."""
    add = cases.writer.add
    given = {entry[0]: entry[1] for entry in inputs}
    infos = [helper.make_tensor_value_info(key, TYPES[value.dtype], [None] * value.ndim) for key, value in given.items()]
    node = helper.make_node("QLinearSoftmax", list(given), ["y"], domain="com.microsoft", axis=axis, opset=opset)
    graph = helper.make_graph([node], "model", infos, [helper.make_tensor_value_info("y", out, None)])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    add(name, helper.make_model(graph, opset_imports=imports, ir_version=10), given)


def attention(cases):
    batch, length, heads, size = 2, 5, 2, 8
    width = heads * size
    x, weights, bias = cases.floats(batch, length, width), cases.floats(width, 3 * width, scale=0.3), cases.floats(3 * width)
    lengths = numpy.array([3, 5], numpy.int32)
    both = numpy.array([3, 5, 1, 0], numpy.int32)
    keys = numpy.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1]], numpy.int32)
    none = numpy.array([[0, 0, 0, 0, 0], [1, 0, 1, 1, 1]], numpy.int32)
    pairs = cases.integers(0, 2, batch, length, length, dtype=numpy.int32)
    added = cases.floats(batch, heads, length, length)
    masks = {"no": None, "lengths": lengths, "both": both, "keys": keys, "none": none, "pairs": pairs}
    for name, mask in masks.items():
        for causal in (0, 1):
            inputs = [("x", x), ("W", weights), ("B", bias), ("m", mask) if mask is not None else None]
            cases.add(f"Attention_{name}_{causal}", "Attention", inputs, [T.FLOAT], num_heads=heads, unidirectional=causal)
    past = cases.floats(2, batch, heads, 3, size)
    longer = numpy.array([[0, 1, 1, 1, 1, 1, 0, 0], [1, 0, 1, 1, 1, 1, 1, 1]], numpy.int32)
    for causal in (0, 1):
        for name, mask in (("no", None), ("keys", longer)):
            inputs = [("x", x), ("W", weights), ("B", bias), ("m", mask) if mask is not None else None, ("p", past)]
            cases.add(f"Attention_past_{name}_{causal}", "Attention", inputs, [T.FLOAT, T.FLOAT], num_heads=heads, unidirectional=causal)
    for shape in ((batch, heads), (1, heads), (1, 1), (batch, 1)):
        inputs = [("x", x), ("W", weights), ("B", bias), ("m", keys), None, ("a", cases.floats(*shape, length, length))]
        cases.add(f"Attention_bias_{shape[0]}{shape[1]}", "Attention", inputs, [T.FLOAT], num_heads=heads)
    cases.add("Attention_scale", "Attention", [("x", x), ("W", weights), ("B", bias)], [T.FLOAT], num_heads=heads, scale=0.5)
    cases.add("Attention_sizes", "Attention", [("x", x), ("W", cases.floats(width, 16 + 16 + 8)), ("B", cases.floats(40))], [T.FLOAT], num_heads=heads, qkv_hidden_sizes=[16, 16, 8])
    cases.add("Attention_filter", "Attention", [("x", x), ("W", weights), ("B", bias), ("m", none)], [T.FLOAT], num_heads=heads, mask_filter_value=-5.0)
    whole = numpy.ones((batch, 1, 10, 10), numpy.int32)
    cases.add("Attention_table", "Attention", [("x", x), ("W", weights), ("B", bias), ("m", whole)], [T.FLOAT], num_heads=heads)
    for kind in (numpy.uint8, numpy.int8):
        low = 0 if kind == numpy.uint8 else -64
        a, w = cases.integers(0, 128, batch, length, width), cases.integers(low, low + 128, width, 3 * width, dtype=kind)
        for name, mask in (("no", None), ("lengths", lengths), ("keys", keys)):
            inputs = [("x", a), ("W", w), ("B", bias), ("s", numpy.array(0.02, F)), ("S", numpy.array(0.01, F)), ("m", mask) if mask is not None else None,
                      ("z", numpy.array(64, numpy.uint8)), ("Z", numpy.array(low + 60, kind))]
            cases.add(f"QAttention_{numpy.dtype(kind).name}_{name}", "QAttention", inputs, [T.FLOAT], num_heads=heads, unidirectional=1 if mask is None else 0)
    q, k, v = cases.floats(batch, length, width), cases.floats(batch, 7, width), cases.floats(batch, 7, width)
    shorter = numpy.array([[1, 1, 1, 0, 0, 1, 1], [1, 0, 1, 1, 1, 1, 1]], numpy.int32)
    masks = {"no": None, "lengths": numpy.array([4, 7], numpy.int32), "keys": shorter, "none": shorter * numpy.array([[0], [1]], numpy.int32), "pairs": cases.integers(0, 2, batch, length, 7, dtype=numpy.int32)}
    for name, mask in masks.items():
        for biased, added in itertools.product((0, 1), (0, 1)):
            if name == "none" and added:
                # All scores are about -10000: what is added is lost in rounding, to either side.
                continue
            inputs = [("q", q), ("k", k), ("v", v), ("B", cases.floats(3 * width)) if biased else None, ("m", mask) if mask is not None else None,
                      ("a", cases.floats(1, heads, length, 7)) if added else None]
            cases.add(f"MultiHeadAttention_{name}_{biased}{added}", "MultiHeadAttention", inputs, [T.FLOAT], num_heads=heads)
    old = [("pk", cases.floats(batch, heads, 4, size)), ("pv", cases.floats(batch, heads, 4, size))]
    own = [("q", q), ("k", cases.floats(batch, length, width)), ("v", cases.floats(batch, length, width)), None, None, None]
    for causal in (0, 1):
        cases.add(f"MultiHeadAttention_past_{causal}", "MultiHeadAttention", own + old, [T.FLOAT, T.FLOAT, T.FLOAT], num_heads=heads, unidirectional=causal)
        cases.add(f"MultiHeadAttention_causal_{causal}", "MultiHeadAttention", own[:3], [T.FLOAT, T.FLOAT, T.FLOAT], num_heads=heads, unidirectional=causal)
    cases.add("MultiHeadAttention_heads", "MultiHeadAttention", [("q", q), ("k", cases.floats(batch, heads, 7, size)), ("v", cases.floats(batch, heads, 7, size))], [T.FLOAT], num_heads=heads)
    cases.add("MultiHeadAttention_values", "MultiHeadAttention", [("q", q), ("k", k), ("v", cases.floats(batch, 7, 2 * 12))], [T.FLOAT], num_heads=heads, scale=0.25)
    cases.add("MultiHeadAttention_packed_pairs", "MultiHeadAttention", [("q", q), ("k", cases.floats(batch, 7, heads, 2, size))], [T.FLOAT], num_heads=heads)
    cases.add("MultiHeadAttention_packed", "MultiHeadAttention", [("q", cases.floats(batch, length, heads, 3, size))], [T.FLOAT], num_heads=heads)


def group_query(cases):
    batch, heads, key_heads, size = 2, 4, 2, 16
    integer = lambda value: numpy.array(value, numpy.int32)
    cos, sin = cases.floats(32, size // 2), cases.floats(32, size // 2)
    for options in ({}, {"local_window_size": 2}, {"softcap": 3.0}, {"scale": 0.5}, {"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1}, {"smooth_softmax": 1}, {"smooth_softmax": 1, "local_window_size": 3, "softcap": 2.0}):
        text = "_".join(f"{key}_{value}" for key, value in options.items())
        caches = [("C", cos), ("S", sin)] if options.get("do_rotary") else []
        # A first call: all of one length.
        q, k, v = cases.floats(batch, 5, heads * size), cases.floats(batch, 5, key_heads * size), cases.floats(batch, 5, key_heads * size)
        outputs = [T.FLOAT, T.FLOAT, T.FLOAT]
        inputs = [("q", q), ("k", k), ("v", v), None, None, ("n", numpy.array([4, 4], numpy.int32)), ("t", integer(5))] + caches
        cases.add(f"GroupQuery_first_{text}", "GroupQueryAttention", inputs, outputs, num_heads=heads, kv_num_heads=key_heads, **options)
        # A next word, behind 6 others.
        q, k, v = cases.floats(batch, 1, heads * size), cases.floats(batch, 1, key_heads * size), cases.floats(batch, 1, key_heads * size)
        past = [("pk", cases.floats(batch, key_heads, 6, size)), ("pv", cases.floats(batch, key_heads, 6, size))]
        inputs = [("q", q), ("k", k), ("v", v)] + past + [("n", numpy.array([6, 6], numpy.int32)), ("t", integer(7))] + caches
        cases.add(f"GroupQuery_next_{text}", "GroupQueryAttention", inputs, outputs, num_heads=heads, kv_num_heads=key_heads, **options)
        # Several words behind others.
        q, k, v = cases.floats(batch, 3, heads * size), cases.floats(batch, 3, key_heads * size), cases.floats(batch, 3, key_heads * size)
        inputs = [("q", q), ("k", k), ("v", v)] + past + [("n", numpy.array([8, 8], numpy.int32)), ("t", integer(9))] + caches
        cases.add(f"GroupQuery_several_{text}", "GroupQueryAttention", inputs, outputs, num_heads=heads, kv_num_heads=key_heads, **options)
        # All three in one.
        inputs = [("q", cases.floats(batch, 5, (heads + 2 * key_heads) * size)), None, None, None, None, ("n", numpy.array([4, 4], numpy.int32)), ("t", integer(5))] + caches
        cases.add(f"GroupQuery_packed_{text}", "GroupQueryAttention", inputs, outputs, num_heads=heads, kv_num_heads=key_heads, **options)
        # Keys and values of another layer, which are all in the past.
        q, none = cases.floats(1, 3, heads * size), numpy.zeros((1, 0, key_heads * size), F)
        for total in (6, 3):
            shared = [("pk", cases.floats(1, key_heads, total, size)), ("pv", cases.floats(1, key_heads, total, size))]
            inputs = [("q", q), ("k", none), ("v", none)] + shared + [("n", numpy.array([total - 1], numpy.int32)), ("t", integer(total))] + caches
            cases.add(f"GroupQuery_shared_{total}_{text}", "GroupQueryAttention", inputs, outputs, num_heads=heads, kv_num_heads=key_heads, **options)
    # Batches of different lengths: the next word of each.
    q, k, v = cases.floats(batch, 1, heads * size), cases.floats(batch, 1, key_heads * size), cases.floats(batch, 1, key_heads * size)
    for _, kept in past:
        # What lies behind the end of a batch is anything: onnxruntime leaves 0.
        kept[0, :, 3:] = 0
    inputs = [("q", q), ("k", k), ("v", v)] + past + [("n", numpy.array([3, 6], numpy.int32)), ("t", integer(7))]
    cases.add("GroupQuery_lengths", "GroupQueryAttention", inputs, outputs, num_heads=heads, kv_num_heads=key_heads)
    inputs[5] = ("n", numpy.array([6, 6], numpy.int32))
    inputs += [None, None, None, ("a", cases.floats(1, heads, 1, 7))]
    cases.add("GroupQuery_bias", "GroupQueryAttention", inputs, outputs, num_heads=heads, kv_num_heads=key_heads)
    inputs[10:] = [None, ("H", cases.floats(heads))]
    cases.add("GroupQuery_sinks", "GroupQueryAttention", inputs, outputs, num_heads=heads, kv_num_heads=key_heads)
    for interleaved, scale in itertools.product((0, 1), (1.0, 0.5)):
        for shape, options in (((batch, 5, 3 * size), {}), ((batch, 3, 5, size), {}), ((batch, 5, 3 * size), {"num_heads": 3}), ):
            for name, ids in (("first", numpy.array([2], numpy.int64)), ("each", cases.integers(0, 32, batch, 5, dtype=numpy.int64))):
                inputs = [("x", cases.floats(*shape)), ("p", ids), ("C", cos), ("S", sin)]
                cases.add(f"RotaryEmbedding_{name}_{len(shape)}_{len(options)}_{interleaved}_{scale}", "RotaryEmbedding", inputs, [T.FLOAT], interleaved=interleaved, scale=scale, **options)
        inputs = [("x", cases.floats(batch, 5, 3 * 24)), ("p", numpy.array([0], numpy.int64)), ("C", cos), ("S", sin)]
        cases.add(f"RotaryEmbedding_part_{interleaved}_{scale}", "RotaryEmbedding", inputs, [T.FLOAT], interleaved=interleaved, num_heads=3, rotary_embedding_dim=16)if scale == 1.0 else None


def linear_attention(cases):
    batch, length, size, width = 2, 5, 8, 6
    for rule, (heads, key_heads), past in itertools.product(("linear", "gated", "delta", "gated_delta"), ((2, 2), (4, 2), (2, 4)), (0, 1)):
        inputs = [("q", cases.floats(batch, length, heads * size)), ("k", cases.floats(batch, length, key_heads * size, scale=0.3)), ("v", cases.floats(batch, length, key_heads * width)),
                  ("s", cases.floats(batch, key_heads, size, width)) if past else None,
                  ("d", -numpy.abs(cases.floats(batch, length, key_heads * (size if past else 1)))) if "gated" in rule else None,
                  ("b", numpy.abs(cases.floats(batch, length, key_heads if past else 1, scale=0.3))) if "delta" in rule else None]
        cases.add(f"LinearAttention_{rule}_{heads}_{key_heads}_{past}", "LinearAttention", inputs, [T.FLOAT, T.FLOAT], q_num_heads=heads, kv_num_heads=key_heads, update_rule=rule)
    for bias, past, act in itertools.product((0, 1), (0, 1), ("none", "silu")):
        inputs = [("x", cases.floats(batch, 6, 7)), ("W", cases.floats(6, 1, 4)), ("B", cases.floats(6)) if bias else None, ("s", cases.floats(batch, 6, 3)) if past else None]
        cases.add(f"CausalConvWithState_{bias}{past}_{act}", "CausalConvWithState", inputs, [T.FLOAT, T.FLOAT], activation=act)


def recurrent(cases):
    # One sequence, of full length: of several, onnxruntime rounds all hidden states by one scale, and so mixes them; and
    # it does not count what lies behind the end of the longest.
    time, batch, width, hidden = 5, 1, 6, 4
    for direction, kind, wide, more in itertools.product(("forward", "bidirectional"), (numpy.uint8, numpy.int8), (0, 1), (0, 1)):
        directions = 2 if direction == "bidirectional" else 1
        low = 0 if kind == numpy.uint8 else -128
        shape = (directions, 4 * hidden) if wide else (directions,)
        w, r = (cases.integers(low, low + 256, directions, rows, 4 * hidden, dtype=kind) for rows in (width, hidden))
        scales = [numpy.abs(cases.floats(*shape)) * F(0.005) + F(0.001) for _ in range(2)]
        # onnxruntime takes zero points other than the middle only where there is one for all.
        zeros = [numpy.full(shape, low + (128 if wide else 120), kind) for _ in range(2)]
        state = lambda: cases.floats(directions, batch, hidden)
        rest = [("b", cases.floats(directions, 8 * hidden)), ("n", numpy.array([time], numpy.int32)), ("h", state()), ("c", state()),
                ("p", cases.floats(directions, 3 * hidden))] if more else [None] * 5
        inputs = [("x", cases.floats(time, batch, width)), ("W", w), ("R", r)] + rest
        inputs += [("S", scales[0]), ("Z", zeros[0]), ("SR", scales[1]), ("ZR", zeros[1])]
        cases.add(f"DynamicQuantizeLSTM_{direction}_{numpy.dtype(kind).name}_{wide}{more}", "DynamicQuantizeLSTM", inputs, [T.FLOAT] * 3,
                  direction=direction, hidden_size=hidden)


def unsaid(cases):
    """ONNX's own operators where its text says nothing, or what onnxruntime never did."""
    own = dict(domain="")
    outside = numpy.array([300.7, -1.9, 255.5, -200.25], F)
    for kind in ("UINT8", "INT8", "UINT16", "INT16", "UINT32"):
        cases.add(f"Cast_outside_{kind}", "Cast", [("x", outside)], [getattr(T, kind)], to=getattr(T, kind), **own)
    limits = [(name, numpy.array([value])) for name, value in (("Start", -6), ("End", -5), ("Axis", 0), ("Step", -2))]
    cases.add("Slice_backwards_from_before", "Slice", [("x", cases.floats(4)), *limits], [T.FLOAT], **own)
    cases.add("Squeeze_no_axes", "Squeeze", [("x", cases.floats(1, 3, 1)), ("Axes", numpy.zeros(0, numpy.int64))], [T.FLOAT], **own)
    for pad in ("SAME_UPPER", "SAME_LOWER"):
        inputs = [("x", cases.floats(1, 2, 5)), ("W", cases.floats(2, 3, 3))]
        cases.add(f"ConvTranspose_old_{pad}", "ConvTranspose", inputs, [T.FLOAT], auto_pad=pad, strides=[2], domain="", opset=10)
    # A constant that is added behind a product, and keeps some results from being chosen.
    x, weight, bias = cases.floats(2, 4), cases.floats(4, 3), numpy.array([0.5, -numpy.inf, 1], F)
    for op in ("Add", "Sub"):
        nodes = [helper.make_node("MatMul", ["x", "W"], ["product"]), helper.make_node(op, ["product", "B"], ["y"])]
        graph = helper.make_graph(
            nodes, "model", [helper.make_tensor_value_info("x", T.FLOAT, ["rows", 4])], [helper.make_tensor_value_info("y", T.FLOAT, None)],
            [tensor(weight, "W"), tensor(bias, "B")],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
        cases.writer.add(f"MatMul_{op}_infinite", model, {"x": x})


def main():
    cases = Cases(Writer("microsoft"))
    activations(cases)
    norms(cases)
    sampling(cases)
    products(cases)
    rare(cases)
    integer_products(cases)
    blocks(cases)
    quantized(cases)
    attention(cases)
    group_query(cases)
    linear_attention(cases)
    recurrent(cases)
    unsaid(cases)
    cases.writer.finish()
