#!/usr/bin/env python3
"""The workloads of `millstream bench` as ONNX files, with random weights: for `millstream bench --model` and other runtimes.

    bench/onnx_models.py FOLDER

Needs numpy and onnx.
"""

import math
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Model:
    """A graph that is being written. Names of values are numbers."""

    def __init__(self, shape):
        self.random = np.random.default_rng(1)
        self.nodes, self.weights, self.count = [], [], 0
        self.input = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape[1:]])

    def weight(self, *shape, scale=None):
        name = f"w{len(self.weights)}"
        scale = 1 / math.sqrt(shape[-1]) if scale is None else scale
        values = (self.random.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def constant(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, op, *inputs, **attributes):
        self.count += 1
        name = f"v{self.count}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"{op.lower()}{self.count}", **attributes))
        return name

    def linear(self, x, inputs, outputs):
        return self.add("Add", self.add("MatMul", x, self.weight(inputs, outputs)), self.weight(outputs))

    def save(self, path, result):
        self.nodes.append(helper.make_node("Identity", [result], ["y"], name="result"))
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, path.stem, [self.input], [y], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, path)


def linears(sizes):
    model, x = Model([1, sizes[0]]), "x"
    for at, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
        x = x if at == 0 else model.add("Relu", x)
        x = model.linear(x, inputs, outputs)
    return model, x


def conv1d():
    model, x = Model([1, 80, 200]), "x"
    for channels in (80, 256, 256):
        x = model.add("Conv", x, model.weight(256, channels, 3, scale=0.05), model.weight(256), pads=[1, 1], kernel_shape=[3])
        x = model.add("Relu", x)
    return model, x


def encoder(width=256, heads=4, hidden=1024, length=128):
    model = Model([1, length, width])
    shape = model.constant(np.array([0, length, heads, width // heads], np.int64))
    flat = model.constant(np.array([0, length, width], np.int64))
    x = "x"

    def head(order):
        rows = model.add("Reshape", model.linear(x, width, width), shape)
        return model.add("Transpose", rows, perm=order)

    def norm(y):
        return model.add("LayerNormalization", y, model.weight(width), model.weight(width), axis=-1)

    query, key, value = head([0, 2, 1, 3]), head([0, 2, 3, 1]), head([0, 2, 1, 3])
    scale = model.constant(np.float32(1 / math.sqrt(width // heads)))
    scores = model.add("Softmax", model.add("Mul", model.add("MatMul", query, key), scale), axis=-1)
    mixed = model.add("Transpose", model.add("MatMul", scores, value), perm=[0, 2, 1, 3])
    x = norm(model.add("Add", x, model.linear(model.add("Reshape", mixed, flat), width, width)))
    wide = model.add("Relu", model.linear(x, width, hidden))
    return model, norm(model.add("Add", x, model.linear(wide, hidden, width)))


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    made = {
        "mm": linears([512, 512]),
        "mlp": linears([512, 1024, 1024, 512]),
        "mlp-large": linears([2048, 2048, 2048]),
        "conv1d": conv1d(),
        "encoder": encoder(),
    }
    for name, (model, result) in made.items():
        model.save(folder / f"{name}.onnx", result)


if __name__ == "__main__":
    main()
