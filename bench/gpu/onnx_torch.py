"""Runs an ONNX file of fixed input shapes with PyTorch, node by node, as somebody who ported the model by hand would
write it: constants are made once, batch norms are folded into convolutions, and the steps of a hard swish are one call.

It knows the operators of PP-OCR's detection and recognition models (opset 12).
"""

import numpy
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper

TORCH_TYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool, 10: torch.float16}


def attributes(node):
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def halves(pads):
    """The pads of both ends, which must be the same."""
    count = len(pads) // 2
    if pads[:count] != pads[count:]:
        raise ValueError(f"pads {pads} differ at the ends")
    return tuple(pads[:count])


class OnnxModel(torch.nn.Module):
    """The model. Numbers of shapes stay on the host, so that a call never waits for the GPU."""

    def __init__(self, path, device, dtype=torch.float32):
        super().__init__()
        self.device, self.dtype = device, dtype
        graph = onnx.load(path).graph
        self.input = graph.input[0].name
        self.output = graph.output[0].name
        self.constants = {}
        for tensor in graph.initializer:
            self.constants[tensor.name] = self.constant(numpy_helper.to_array(tensor))
        self.steps = []
        for node in graph.node:
            if node.op_type == "Constant":
                self.constants[node.output[0]] = self.constant(numpy_helper.to_array(attributes(node)["value"]))
            else:
                self.steps.append((node.op_type, list(node.input), list(node.output), attributes(node)))
        self.fuse_hard_swish()
        self.fold_batch_norms()
        self.keep_scales_on_host()

    def constant(self, array):
        tensor = torch.from_numpy(numpy.array(array))
        return tensor.to(self.device, self.dtype) if tensor.is_floating_point() else tensor

    def users(self):
        users = {}
        for step in self.steps:
            for name in step[1]:
                users.setdefault(name, []).append(step)
        return users

    def scalar(self, name):
        constant = self.constants.get(name)
        return constant.item() if constant is not None and constant.numel() == 1 else None

    def fuse_hard_swish(self):
        """x · clip(x + 3, 0, 6) / 6 in one call."""
        users = self.users()
        for add in [step for step in self.steps if step[0] == "Add" and self.scalar(step[1][1]) == 3.0]:
            chain, source = [add], add[1][0]
            for kind in ["Clip", "Mul", "Div"]:
                following = users.get(chain[-1][2][0], [])
                if len(following) != 1 or following[0][0] != kind:
                    break
                chain.append(following[0])
            if len(chain) < 4 or source not in chain[2][1] or self.scalar(chain[3][1][1]) != 6.0:
                continue
            place = self.steps.index(chain[3])
            self.steps[place] = ("HardSwish", [source], chain[3][2], {})
            for step in chain[:3]:
                self.steps.remove(step)

    def fold_batch_norms(self):
        users = self.users()
        makers = {step[2][0]: step for step in self.steps}
        for step in [step for step in self.steps if step[0] == "BatchNormalization"]:
            maker = makers.get(step[1][0])
            if maker is None or maker[0] != "Conv" or len(users[step[1][0]]) != 1 or len(maker[1]) > 2:
                continue
            scale, bias, mean, variance = (self.constants[name] for name in step[1][1:])
            factor = scale / torch.sqrt(variance + step[3].get("epsilon", 1e-5))
            weight = self.constants[maker[1][1]] * factor.reshape(-1, 1, 1, 1)
            names = [maker[1][1] + ".folded", maker[1][1] + ".bias"]
            self.constants[names[0]], self.constants[names[1]] = weight, bias - mean * factor
            self.steps[self.steps.index(maker)] = ("Conv", [maker[1][0], *names], step[2], maker[3])
            self.steps.remove(step)

    def keep_scales_on_host(self):
        """A graph that is captured cannot read the scales of a Resize from the GPU."""
        for step in [step for step in self.steps if step[0] == "Resize"]:
            for name in [name for name in step[1][1:] if name in self.constants]:
                self.constants[name] = self.constants[name].cpu()

    def forward(self, x):
        values = {self.input: x, "": None}
        for kind, inputs, outputs, given in self.steps:
            found = [values[name] if name in values else self.constants[name] for name in inputs]
            result = getattr(self, "op_" + kind.lower())(given, *found)
            values[outputs[0]] = result
        return values[self.output]

    def op_add(self, _, a, b): return a + b
    def op_sub(self, _, a, b): return a - b
    def op_mul(self, _, a, b): return a * b
    def op_div(self, _, a, b): return a / b if a.is_floating_point() else a // b
    def op_pow(self, _, a, b): return torch.pow(a, b)
    def op_sqrt(self, _, a): return torch.sqrt(a)
    def op_relu(self, _, a): return F.relu(a)
    def op_sigmoid(self, _, a): return torch.sigmoid(a)
    def op_hardswish(self, _, a): return F.hardswish(a)
    def op_matmul(self, _, a, b): return torch.matmul(a, b)
    def op_globalaveragepool(self, _, a): return a.mean((2, 3), keepdim=True)
    def op_shape(self, _, a): return torch.tensor(a.shape)
    def op_concat(self, given, *parts): return torch.cat(parts, given["axis"])
    def op_softmax(self, given, a): return F.softmax(a, given.get("axis", 1))
    def op_transpose(self, given, a): return a.permute(given["perm"])

    def op_hardsigmoid(self, given, a):
        return torch.clamp(a * given.get("alpha", 0.2) + given.get("beta", 0.5), 0.0, 1.0)

    def op_clip(self, _, a, low=None, high=None):
        return torch.clamp(a, low, high)

    def op_cast(self, given, a):
        to = TORCH_TYPES[given["to"]]
        return a.to(self.dtype if to.is_floating_point and a.is_cuda else to)

    def op_conv(self, given, x, weight, bias=None):
        stride, dilation = tuple(given.get("strides", (1, 1))), tuple(given.get("dilations", (1, 1)))
        pads = halves(given.get("pads", [0, 0, 0, 0]))
        return F.conv2d(x, weight, bias, stride, pads, dilation, given.get("group", 1))

    def op_convtranspose(self, given, x, weight, bias=None):
        pads = halves(given.get("pads", [0, 0, 0, 0]))
        return F.conv_transpose2d(x, weight, bias, tuple(given.get("strides", (1, 1))), pads)

    def op_batchnormalization(self, given, x, scale, bias, mean, variance):
        return F.batch_norm(x, mean, variance, scale, bias, False, 0.0, given.get("epsilon", 1e-5))

    def op_averagepool(self, given, x):
        return F.avg_pool2d(x, tuple(given["kernel_shape"]), tuple(given["strides"]), halves(given.get("pads", [0] * 4)))

    def op_reducemean(self, given, x):
        return x.mean(tuple(given["axes"]), keepdim=bool(given.get("keepdims", 1)))

    def op_squeeze(self, given, x):
        return x.squeeze(tuple(given["axes"]))

    def op_reshape(self, _, x, shape):
        sizes = [x.shape[axis] if size == 0 else size for axis, size in enumerate(shape.tolist())]
        return x.reshape(sizes)

    def op_slice(self, _, x, starts, ends, axes=None, steps=None):
        axes = range(len(starts)) if axes is None else axes.tolist()
        for axis, start, end in zip(axes, starts.tolist(), ends.tolist()):
            x = x.narrow(axis, start % x.shape[axis], min(end, x.shape[axis]) - start % x.shape[axis])
        return x

    def op_resize(self, given, x, _, scales=None, sizes=None):
        if given.get("mode", b"nearest") != b"nearest":
            raise ValueError("only nearest neighbors")
        size = sizes.tolist()[2:] if sizes is not None else [round(n * float(s)) for n, s in zip(x.shape[2:], scales.tolist()[2:])]
        return F.interpolate(x, size=size, mode="nearest")
