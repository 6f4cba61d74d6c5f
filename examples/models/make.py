#!/usr/bin/env python3
"""Writes the model of the examples, `classifier.onnx`. Needs the packages `onnx` and `numpy`.

    python3 examples/models/make.py

It takes `points`, rows of two numbers, and gives `scores` for three classes and `label`, the class with the highest score. Class k is
the direction k · 120° from the origin: weights are written down, not learned.
"""

import math
from pathlib import Path

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

angles = [2 * math.pi * k / 3 for k in range(3)]
weight = np.array([[math.cos(a) for a in angles], [math.sin(a) for a in angles]], np.float32)
bias = np.array([0.1, 0.0, -0.1], np.float32)

graph = helper.make_graph(
    [
        helper.make_node("Gemm", ["points", "weight", "bias"], ["product"], name="directions"),
        helper.make_node("Softmax", ["product"], ["scores"], name="scores", axis=1),
        helper.make_node("ArgMax", ["scores"], ["label"], name="label", axis=1, keepdims=0),
    ],
    "classifier",
    [helper.make_tensor_value_info("points", TensorProto.FLOAT, ["batch", 2])],
    [
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 3]),
        helper.make_tensor_value_info("label", TensorProto.INT64, ["batch"]),
    ],
    [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(bias, "bias")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
checker.check_model(model, full_check=True)
save(model, Path(__file__).parent / "classifier.onnx")
