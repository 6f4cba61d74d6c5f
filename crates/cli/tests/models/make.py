#!/usr/bin/env python3
"""Writes the models of the program's tests. Needs the package `onnx`.

    python3 crates/cli/tests/models/make.py
"""

from pathlib import Path

from onnx import TensorProto, helper, save

HERE = Path(__file__).parent


def write(name, nodes, inputs, outputs, opsets=(("", 23),)):
    graph = helper.make_graph(nodes, name, inputs, outputs)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets]
    save(helper.make_model(graph, opset_imports=imports, ir_version=10), HERE / f"{name}.onnx")


def tensor(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


# Gives back what it gets, for every element type.
TYPES = {
    "f32": TensorProto.FLOAT, "f64": TensorProto.DOUBLE, "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16,
    "i8": TensorProto.INT8, "i16": TensorProto.INT16, "i32": TensorProto.INT32, "i64": TensorProto.INT64,
    "u8": TensorProto.UINT8, "u16": TensorProto.UINT16, "u32": TensorProto.UINT32, "u64": TensorProto.UINT64,
    "bool": TensorProto.BOOL, "f8e4m3fn": TensorProto.FLOAT8E4M3FN, "f8e5m2": TensorProto.FLOAT8E5M2,
    "i4": TensorProto.INT4, "u4": TensorProto.UINT4, "text": TensorProto.STRING,
}
write(
    "types",
    [helper.make_node("Identity", [name], [f"{name} out"], name=name) for name in TYPES],
    [tensor(name, kind, ["n", "m"]) for name, kind in TYPES.items()],
    [tensor(f"{name} out", kind, ["n", "m"]) for name, kind in TYPES.items()],
)

# Operators that nobody knows, one of them within a branch, beside some that are right.
branch = helper.make_graph(
    [helper.make_node("Whirl", ["x"], ["inner"], name="hidden", domain="made.up")],
    "branch", [], [tensor("inner", TensorProto.FLOAT, None)],
)
plain = helper.make_graph(
    [helper.make_node("Neg", ["x"], ["outer"], name="plain")],
    "plain", [], [tensor("outer", TensorProto.FLOAT, None)],
)
write(
    "unsupported",
    [
        helper.make_node("Whirl", ["x"], ["a"], name="first", domain="made.up"),
        helper.make_node("Twist", ["a"], ["b"], name="second", domain="made.up"),
        helper.make_node("Relu", ["b"], ["c"], name="known"),
        helper.make_node("If", ["condition"], ["d"], name="choice", then_branch=branch, else_branch=plain),
        helper.make_node("Add", ["c", "d"], ["y"], name="sum"),
    ],
    [tensor("x", TensorProto.FLOAT, ["n"]), tensor("condition", TensorProto.BOOL, [])],
    [tensor("y", TensorProto.FLOAT, ["n"])],
    (("", 17), ("made.up", 1)),
)

# Two nodes that are not as their operators want them, beside one that is right.
write(
    "wrong",
    [
        helper.make_node("Cast", ["x"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="right"),
        helper.make_node("Cast", ["b"], ["y"], name="second"),
    ],
    [tensor("x", TensorProto.FLOAT, ["n"])],
    [tensor("y", TensorProto.FLOAT, ["n"])],
)
