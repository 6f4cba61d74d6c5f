"""Kokoro, changed so that it can be compared: its sound follows from roundings in two places.

The phase of a spectrum. The imaginary part of the lowest and the highest frequency of a real signal is 0. Here it is 0; in onnxruntime
it is what roundings leave, of either sign, and where the real part is negative the phase jumps between π and −π with it. With these parts
set to 0 the model has one answer: `steady` does that. Without it, onnxruntime with zeros there differs from onnxruntime by 39 to 41 %
of the strengths of 64 bands, as Millstream does.

Numbers of 8 bits. Any rounding can move one, and what follows differs. `cut` makes every tensor that becomes 8-bit numbers an input of
the model as well as an output, so that each part between two of them is computed from onnxruntime's own numbers.
"""

SPECTRUM = "STFT"
# Whatever follows the hidden state of this layer, which is rounded to 8 bits in every step, differs by up to 4e-3.
SHARED = "/encoder/shared/LSTM_quant"


def rename_readers(model, names):
    """Every node that reads one of these tensors reads what `names` gives instead."""
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            if name in names:
                node.input[index] = names[name]


def steady(model):
    import numpy as np
    from onnx import helper, numpy_helper

    [stft] = [node for node in model.graph.node if node.op_type == SPECTRUM]
    [spectrum] = stft.output
    rename_readers(model, {spectrum: "steady_spectrum"})
    frequencies = 11
    mask = np.ones((1, 1, frequencies, 2), "float32")
    mask[0, 0, [0, -1], 1] = 0
    model.graph.initializer.append(numpy_helper.from_array(mask, "steady_mask"))
    model.graph.node.append(helper.make_node("Mul", [spectrum, "steady_mask"], ["steady_spectrum"]))


def cut_names(model):
    """The tensors that become 8-bit numbers, and those around the voice's phase."""
    made = {output for node in model.graph.node for output in node.output}
    names = []
    for node in model.graph.node:
        found = []
        if node.op_type in ("DynamicQuantizeLinear", "DynamicQuantizeLSTM", "CumSum", SPECTRUM):
            found.append(node.input[0])
        if node.op_type in ("DynamicQuantizeLSTM", SPECTRUM, "Atan"):
            found.append(node.output[0])
        # The phase of the voice is a large number, of which the last bit is 2e-4 of a radian.
        if node.op_type == "Sin" and "m_source" in node.name:
            found.append(node.input[0])
        names += [name for name in found if name in made and name not in names]
    return names


def cut(model, inputs):
    """Cuts the model, and gives what its new inputs are."""
    import onnx
    import onnxruntime
    from onnx import helper

    names = cut_names(model)
    tapped = onnx.ModelProto()
    tapped.CopyFrom(model)
    tapped.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = onnxruntime.InferenceSession(tapped.SerializeToString(), providers=["CPUExecutionProvider"])
    values = dict(zip(names, session.run(names, inputs)))
    [shared] = [node.output[0] for node in model.graph.node if node.name == SHARED]
    rename_readers(model, {name: name + "_given" for name in names})
    for name, value in values.items():
        kind, dims = helper.np_dtype_to_tensor_dtype(value.dtype), [None] * value.ndim
        model.graph.input.append(helper.make_tensor_value_info(name + "_given", kind, dims))
        if name != shared:
            model.graph.output.append(helper.make_tensor_value_info(name, kind, dims))
    return {name + "_given": value for name, value in values.items()}
