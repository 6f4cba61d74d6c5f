"""Cases with onnxruntime's answers, in the form of ONNX's own tests: a model, and data sets of inputs and outputs."""

import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import environment

FOLDER = environment.TARGET / "onnx-reference"


def value_bytes(value, info):
    """A value as the file that its declared type asks for."""
    import numpy
    from onnx import numpy_helper

    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        return sequence(value, info).SerializeToString()
    if kind == "map_type":
        return mapping(value, info.type.map_type).SerializeToString()
    if kind == "optional_type":
        return numpy_helper.from_optional(value, info.name).SerializeToString()
    value = numpy.asarray(value)
    if value.dtype.kind in "US":
        value = value.astype(object)
    return tensor(value, info.name).SerializeToString()


def tensor(value, name=""):
    """A tensor, of strings too."""
    import numpy
    from onnx import TensorProto, helper, numpy_helper

    if value.dtype == object:
        texts = [text if isinstance(text, bytes) else str(text).encode() for text in value.flatten()]
        return helper.make_tensor(name, TensorProto.STRING, value.shape, texts)
    return numpy_helper.from_array(numpy.ascontiguousarray(value).reshape(value.shape), name)


def sequence(values, info):
    import numpy
    from onnx import SequenceProto

    made = SequenceProto(name=info.name)
    element = info.type.sequence_type.elem_type
    if element.HasField("map_type"):
        made.elem_type = SequenceProto.MAP
        made.map_values.extend(mapping(value, element.map_type) for value in values)
    else:
        made.elem_type = SequenceProto.TENSOR
        made.tensor_values.extend(tensor(numpy.asarray(value)) for value in values)
    return made


def mapping(value, kind):
    import numpy
    from onnx import MapProto, SequenceProto, TensorProto, helper

    made = MapProto(key_type=kind.key_type)
    texts = kind.key_type == TensorProto.STRING
    for key in value:
        if texts:
            made.string_keys.append(key.encode() if isinstance(key, str) else key)
        else:
            made.keys.append(key)
    dtype = helper.tensor_dtype_to_np_dtype(kind.value_type.tensor_type.elem_type)
    made.values.elem_type = SequenceProto.TENSOR
    # One value for each key.
    made.values.tensor_values.extend(tensor(numpy.asarray(entry, dtype)) for entry in value.values())
    return made


class Writer:
    """Writes the cases of one group."""

    def __init__(self, group):
        self.folder = FOLDER / group
        shutil.rmtree(self.folder, ignore_errors=True)
        self.count = 0
        self.failed = []

    def add(self, name, model, *sets, answers=None, level=None):
        """A case: every set is a dict of inputs. `answers` are given where onnxruntime has none."""
        import onnxruntime

        name = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = level or onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        data = model.SerializeToString()
        try:
            if answers is None:
                session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
                answers = [session.run(None, inputs) for inputs in sets]
        except Exception as error:
            self.failed.append(f"{name}: {str(error).splitlines()[0][:200]}")
            return
        folder = self.folder / name
        if folder.exists():
            raise ValueError(f"{name} is there twice")
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(data)
        for number, (inputs, outputs) in enumerate(zip(sets, answers)):
            place = folder / f"test_data_set_{number}"
            place.mkdir()
            given = [info for info in model.graph.input if info.name in inputs]
            for index, info in enumerate(given):
                (place / f"input_{index}.pb").write_bytes(value_bytes(inputs[info.name], info))
            for index, (info, output) in enumerate(zip(model.graph.output, outputs)):
                (place / f"output_{index}.pb").write_bytes(value_bytes(output, info))
        self.count += 1

    def finish(self):
        for line in self.failed:
            print(f"onnxruntime does not run {line}", file=sys.stderr)
        print(f"{self.folder.name}: {self.count} cases, {len(self.failed)} that onnxruntime does not run", file=sys.stderr)
