#!/usr/bin/env python3
"""Writes ONNX's own tests as files, for `crates/onnx/tests/node_tests.rs`, and prints their folder.

    crates/onnx/tests/node_tests/export.py

| folder | what is there |
|---|---|
| `new/NAME` | the node tests of the newest `onnx` package, which it makes when it is asked |
| `stored/OPSET/NAME` | those that older packages carry as files, once for every operator set |
| `simple/KIND/NAME` | what the newest package carries as files |

Each has a `model.onnx` and `test_data_set_N/{input,output}_N.pb`; new ones have the name of their operator in a file, since
some are made of what the operator stands for. Packages are fetched with pip. The tests are made in a
virtual environment under target/ (with `--no-venv`, in the Python that runs this), and never committed.
"""

import hashlib
import pathlib
import re
import shutil
import sys
import tempfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import environment  # noqa: E402

FOLDER = environment.TARGET / "onnx-node-tests"
# Versions that carry node tests as files, each with a Python and a platform that has a wheel of it.
OLD = {
    "1.3.0": ("3.6", "manylinux1_x86_64"),
    "1.4.1": ("3.6", "manylinux1_x86_64"),
    "1.5.0": ("3.6", "manylinux1_x86_64"),
    "1.6.0": ("3.6", "manylinux1_x86_64"),
    "1.7.0": ("3.6", "manylinux1_x86_64"),
    "1.8.1": ("3.6", "manylinux2010_x86_64"),
    "1.10.2": ("3.6", "manylinux2010_x86_64"),
    "1.12.0": ("3.7", "manylinux2014_x86_64"),
    "1.14.1": ("3.8", "manylinux2014_x86_64"),
}


def value_bytes(value, info):
    """A value as the file that its declared type asks for."""
    from onnx import TensorProto, numpy_helper

    if isinstance(value, TensorProto):
        return value.SerializeToString()
    kind = info.type.WhichOneof("value")
    make = {
        "map_type": numpy_helper.from_dict,
        "sequence_type": numpy_helper.from_list,
        "optional_type": numpy_helper.from_optional,
        "tensor_type": numpy_helper.from_array,
    }[kind]
    return make(value, info.name).SerializeToString()


def write_new(folder):
    """The node tests that the package makes."""
    from onnx.backend.test.case.node import collect_testcases

    cases = collect_testcases(None)
    single = {case.name: case.model.graph.node[0].op_type for case in cases if len(case.model.graph.node) == 1}
    for case in cases:
        path = folder / case.name
        path.mkdir(parents=True)
        (path / "model.onnx").write_bytes(case.model.SerializeToString())
        base = re.sub("_expanded.*", "", case.name)
        (path / "operator").write_text(single.get(base, "several"))
        for number, values in enumerate(case.data_sets):
            data = path / f"test_data_set_{number}"
            data.mkdir()
            for side, given, ports in zip(("input", "output"), values, (case.model.graph.input, case.model.graph.output)):
                for index, (value, port) in enumerate(zip(given, ports)):
                    (data / f"{side}_{index}.pb").write_bytes(value_bytes(value, port))
    return len(cases)


def opset(model):
    """The version of ONNX's own operator set that a model uses; 0 if it uses none."""
    import onnx

    imports = onnx.load_from_string(model).opset_import
    return max((one.version for one in imports if one.domain in ("", "ai.onnx")), default=0)


def write_stored(folder, wheels):
    """The node tests that older packages carry; where two have the same, that of the newer."""
    found = {}
    for version, (python, platform) in OLD.items():
        where = ["--python-version", python, "--platform", platform]
        wheel = environment.download(f"onnx=={version}", wheels / version, *where)
        archive = zipfile.ZipFile(wheel)
        for name in archive.namelist():
            match = re.search(r"/backend/test/data/node/([^/]+)/model\.onnx$", name)
            if match:
                found[match[1], opset(archive.read(name))] = (archive, name.removesuffix("model.onnx"))
    members = {}
    for (name, version), (archive, prefix) in found.items():
        if archive not in members:
            members[archive] = archive.namelist()
        for member in members[archive]:
            if member.startswith(prefix) and not member.endswith("/"):
                path = folder / str(version) / name / member.removeprefix(prefix)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(member))
    return len(found)


def write_simple(folder):
    """What the package carries as files, except pictures of whole models."""
    import onnx

    data = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data"
    count = 0
    for model in sorted(data.glob("*/*/model.onnx")):
        kind = model.parent.parent.name
        if kind != "light":
            shutil.copytree(model.parent, folder / kind / model.parent.name)
            count += 1
    return count


def main():
    digest = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()
    made = FOLDER / "digest"
    if not (made.exists() and made.read_text() == digest):
        environment.TARGET.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=environment.TARGET) as folder:
            folder = pathlib.Path(folder)
            counts = {
                "new": write_new(folder / "tests" / "new"),
                "stored": write_stored(folder / "tests" / "stored", folder / "wheels"),
                "simple": write_simple(folder / "tests" / "simple"),
            }
            print(f"{FOLDER}: {counts}", file=sys.stderr)
            (folder / "tests" / "digest").write_text(digest)
            shutil.rmtree(FOLDER, ignore_errors=True)
            shutil.move(folder / "tests", FOLDER)
    print(FOLDER)


if __name__ == "__main__":
    environment.enter()
    main()
