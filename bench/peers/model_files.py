"""The models that `models.py` measures: where each comes from, and its inputs."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from environment import ROOT, TARGET

FOLDER = TARGET / "bench-models"
# Counted up when models or inputs change, so that older ones are made again.
EDITION = 1
# Name here, folder of `crates/onnx/tests/models/references.py`, and which of its inputs, or the shape of another.
FETCHED = {
    "minilm-packed": ("minilm", 1),
    "ocr-det": ("ocr-det", {"x": (1, 3, 640, 640)}),
    "ocr-rec": ("ocr-rec", 1),
    "silero": ("silero-ifless", 0),
    "nudenet": ("nudenet", 0),
    "kokoro": ("kokoro", 0),
    "piper": ("piper", 1),
}
NAMES = [
    "minilm", "minilm-int8", "encoder", "conv1d", "mlp-large", "ocr-det", "ocr-rec", "silero", "nudenet", "kokoro", "piper",
]  # fmt: skip


class Builder:
    """Nodes and random weights, as PyTorch's exporter writes them."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def weight(self, *shape, scale=None):
        name = f"w{len(self.weights)}"
        scale = scale or 1 / np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else shape[0])
        values = self.rng.uniform(-scale, scale, shape).astype("float32")
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def constant(self, values, dtype):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def node(self, operator, *inputs, **attributes):
        name = f"{operator}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def save(self, path, shape, result):
        value = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        answer = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "model", [value], [answer], self.weights)
        imports = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)


def mlp_large(path):
    b = Builder(1)
    x = b.node("Gemm", "x", b.weight(2048, 2048), b.weight(2048), transB=1)
    x = b.node("Relu", x)
    x = b.node("Gemm", x, b.weight(2048, 2048), b.weight(2048), transB=1)
    b.save(path, (64, 2048), x)


def mlp(path):
    b, x = Builder(6), "x"
    for inputs, outputs in [(512, 1024), (1024, 1024), (1024, 512)]:
        x = b.node("Relu", x) if x != "x" else x
        x = b.node("Gemm", x, b.weight(outputs, inputs), b.weight(outputs), transB=1)
    # Calls are joined along it.
    b.save(path, ("batch", 512), x)


def conv1d(path):
    b, x = Builder(2), "x"
    for channels in (80, 256, 256):
        x = b.node("Conv", x, b.weight(256, channels, 3), b.weight(256), kernel_shape=[3], pads=[1, 1])
        x = b.node("Relu", x)
    b.save(path, (1, 80, 200), x)


def encoder(path):
    """nn.TransformerEncoderLayer(256, 4, 1024), normalized behind each half."""
    b = Builder(3)

    def linear(x, inputs, outputs):
        return b.node("Add", b.node("MatMul", x, b.weight(inputs, outputs, scale=inputs**-0.5)), b.weight(outputs))

    def norm(x):
        return b.node("LayerNormalization", x, b.weight(256), b.weight(256), axis=-1, epsilon=1e-5)

    def heads(x, order):
        return b.node("Transpose", b.node("Reshape", x, b.constant([1, 128, 4, 64], "int64")), perm=order)

    q, k, v = (linear("x", 256, 256) for _ in range(3))
    scores = b.node("MatMul", heads(q, [0, 2, 1, 3]), heads(k, [0, 2, 3, 1]))
    scores = b.node("Softmax", b.node("Mul", scores, b.constant(0.125, "float32")), axis=-1)
    seen = b.node("Transpose", b.node("MatMul", scores, heads(v, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
    seen = b.node("Reshape", seen, b.constant([1, 128, 256], "int64"))
    x = norm(b.node("Add", "x", linear(seen, 256, 256)))
    x = norm(b.node("Add", x, linear(b.node("Relu", linear(x, 256, 1024)), 1024, 256)))
    b.save(path, (1, 128, 256), x)


BUILT = {
    "mlp": (mlp, (1, 512)),
    "mlp-large": (mlp_large, (64, 2048)),
    "conv1d": (conv1d, (1, 80, 200)),
    "encoder": (encoder, (1, 128, 256)),
}


def write_inputs(folder, inputs):
    """As `millstream bench --inputs` reads them, and as `native` does."""
    entries = []
    for index, (name, values) in enumerate(inputs.items()):
        entries.append({"name": name, "dtype": str(values.dtype), "shape": list(values.shape)})
        (folder / f"{index}.bin").write_bytes(np.ascontiguousarray(values).tobytes())
    np.savez(folder / "inputs.npz", **inputs)
    (folder / "inputs.json").write_text(json.dumps(entries))


def fetched(name, models):
    source, case = FETCHED[name]
    model = models / source / "model.onnx"
    if isinstance(case, dict):
        rng = np.random.default_rng(4)
        return model, {key: rng.normal(0, 1, shape).astype("float32") for key, shape in case.items()}
    data = sorted((models / source / f"test_data_set_{case}").glob("input_*.pb"))
    tensors = [onnx.load_tensor(path) for path in data]
    return model, {tensor.name: numpy_helper.to_array(tensor) for tensor in tensors}


def minilm(folder, model):
    """The packed model's weights are 8-bit, with a scale each: this has them as f32, computed once."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folder / "model.onnx")
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def int8(folder, model):
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(model, folder / "model.onnx", weight_type=QuantType.QInt8)


def references():
    """The folder of real models, which are fetched on first use."""
    script = ROOT / "crates" / "onnx" / "tests" / "models" / "references.py"
    wanted = sorted({source for source, _ in FETCHED.values()})
    done = subprocess.run([sys.executable, script, *wanted], check=True, stdout=subprocess.PIPE, text=True)
    return pathlib.Path(done.stdout.strip().splitlines()[-1])


def make(names):
    """The folders of these models, each with `model.onnx` and its inputs."""
    models = None
    # Quantized from the other.
    needed = ["minilm"] if "minilm-int8" in names else []
    for name in [*needed, *names]:
        folder = FOLDER / name
        edition = folder / "edition"
        if edition.exists() and edition.read_text() == str(EDITION):
            continue
        folder.mkdir(parents=True, exist_ok=True)
        if name in BUILT:
            build, shape = BUILT[name]
            build(folder / "model.onnx")
            inputs = {"x": np.random.default_rng(5).normal(0, 1, shape).astype("float32")}
        else:
            models = models or references()
            packed = name.startswith("minilm")
            model, inputs = fetched("minilm-packed" if packed else name, models)
            if name == "minilm":
                minilm(folder, model)
            elif name == "minilm-int8":
                int8(folder, FOLDER / "minilm" / "model.onnx")
            else:
                (folder / "model.onnx").write_bytes(model.read_bytes())
        write_inputs(folder, inputs)
        edition.write_text(str(EDITION))
    return {name: FOLDER / name for name in names}
