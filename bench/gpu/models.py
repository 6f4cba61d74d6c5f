#!/usr/bin/env python3
"""Models of many layers on a GPU, ours beside PyTorch with CUDA graphs, all measured in turn in one run.

    bench/gpu/models.py --millstream target/release/millstream --det DET.onnx --rec REC.onnx --out FOLDER

It makes an encoder of MiniLM's sizes with random weights, in f32 and f16, saves it as a folder and as ONNX files, and
runs each from 1, 8 and 31 threads: ours by layers and as a Session, PyTorch as one graph per thread. PP-OCR's models
run as Sessions and in PyTorch by `onnx_torch.py`, whose answers are compared with those of onnxruntime. A call moves
inputs and answers between host and device. What is missing fails alone.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
TOKENS, VOCABULARY, HIDDEN, LAYERS, HEADS, INNER = 128, 30522, 384, 6, 12, 1536
SHAPES = {"det": "1x3x640x640", "rec": "1x3x48x320"}


def encoder(torch):
    """BERT as Transformers names its parameters, from ids to the last layer."""
    F, nn = torch.nn.functional, torch.nn

    def module(**children):
        made = nn.Module()
        for name, child in children.items():
            made.add_module(name, child)
        return made

    def norm():
        return nn.LayerNorm(HIDDEN, eps=1e-12)

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embeddings = module(
                word_embeddings=nn.Embedding(VOCABULARY, HIDDEN),
                position_embeddings=nn.Embedding(512, HIDDEN),
                token_type_embeddings=nn.Embedding(2, HIDDEN),
                LayerNorm=norm(),
            )
            layers = []
            for _ in range(LAYERS):
                own = {name: nn.Linear(HIDDEN, HIDDEN) for name in ["query", "key", "value"]}
                attention = module(self=module(**own), output=module(dense=nn.Linear(HIDDEN, HIDDEN), LayerNorm=norm()))
                layers.append(module(
                    attention=attention,
                    intermediate=module(dense=nn.Linear(HIDDEN, INNER)),
                    output=module(dense=nn.Linear(INNER, HIDDEN), LayerNorm=norm()),
                ))
            self.encoder = module(layer=nn.ModuleList(layers))

        def forward(self, ids):
            made = self.embeddings
            places = made.position_embeddings.weight[: ids.shape[1]] + made.token_type_embeddings.weight[0]
            x = made.LayerNorm(made.word_embeddings(ids) + places)
            split = lambda y: y.view(y.shape[0], y.shape[1], HEADS, HIDDEN // HEADS).transpose(1, 2)
            for layer in self.encoder.layer:
                own, after = layer.attention._modules["self"], layer.attention.output
                mixed = F.scaled_dot_product_attention(split(own.query(x)), split(own.key(x)), split(own.value(x)))
                x = after.LayerNorm(after.dense(mixed.transpose(1, 2).reshape(x.shape)) + x)
                x = layer.output.LayerNorm(layer.output.dense(F.gelu(layer.intermediate.dense(x))) + x)
            return x

    torch.manual_seed(1)
    return Encoder().eval()


def make(folder):
    """Saves the encoder in both types. Gives what went wrong."""
    import torch
    from safetensors.torch import save_file

    problems = []
    for dtype, name in [(torch.float32, "f32"), (torch.float16, "f16")]:
        target = folder / f"minilm-{name}"
        target.mkdir(parents=True, exist_ok=True)
        model = encoder(torch).to(dtype)
        save_file({key: value.contiguous() for key, value in model.state_dict().items()}, target / "model.safetensors")
        config = {
            "model_type": "bert", "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "intermediate_size": INNER, "hidden_act": "gelu",
            "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
        }
        (target / "config.json").write_text(json.dumps(config))
        ids, path = torch.randint(0, VOCABULARY, (1, TOKENS)), str(folder / f"minilm-{name}.onnx")
        if dtype == torch.float16:
            model, ids = model.cuda(), ids.cuda()
        try:
            torch.onnx.export(model, (ids,), path, input_names=["ids"], opset_version=17, dynamo=False)
        except Exception as error:
            problems.append(f"export of {name}: {type(error).__name__}: {error}"[:300])
    return problems


class Subject:
    """What `torch_worker.measure` needs of a model."""

    def __init__(self, name, folder, arguments):
        import torch

        self.torch, self.name = torch, name
        # Of MiniLM relative to the answer as a whole. PP-OCR's answers are probabilities, most of them tiny.
        self.tolerance = 2e-2 if name.endswith("f16") else 2e-4
        self.inputs, self.answers = [], []
        if name.startswith("minilm"):
            self.result = torch.float16 if name.endswith("f16") else torch.float32
            self.model = encoder(torch).to("cuda", self.result)
            exact = encoder(torch).double().to("cuda")
            self.exact = lambda values: exact(values.cuda()).cpu()
            self.values = lambda generator: torch.randint(0, VOCABULARY, (1, TOKENS), generator=generator)
        else:
            import onnxruntime
            from onnx_torch import OnnxModel

            path = getattr(arguments, name)
            self.result, self.model = torch.float32, OnnxModel(path, "cuda")
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            feed = session.get_inputs()[0].name
            self.exact = lambda values: torch.from_numpy(session.run(None, {feed: values.numpy()})[0]).double()
            shape = [int(size) for size in SHAPES[name].split("x")]
            self.values = lambda generator: torch.randn(shape, generator=generator)

    def prepare(self, threads):
        with self.torch.inference_mode():
            for seed in range(len(self.inputs), threads):
                # Few answers are computed: onnxruntime takes its time.
                generator = self.torch.Generator().manual_seed(seed % 4)
                self.inputs.append(self.values(generator))
                self.answers.append(self.answers[seed - 4] if seed >= 4 else self.exact(self.inputs[seed]))
        self.torch.cuda.synchronize()

    def is_right(self, thread, answer):
        expected = self.answers[thread]
        if not self.name.startswith("minilm"):
            return self.torch.allclose(answer.double(), expected, rtol=1e-4, atol=1e-5)
        norm = self.torch.linalg.vector_norm
        return bool(norm(answer.double() - expected) < self.tolerance * norm(expected))


def torch_rows(name, arguments):
    """Run in a process of its own: rows of PyTorch with graphs."""
    import torch

    import torch_worker

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.set_num_threads(1)
    subject, rows = Subject(name, arguments.out, arguments), []
    for threads in arguments.threads:
        rows.append(torch_worker.measure(subject, "graph", threads, arguments.seconds, True))
    print(json.dumps({"rows": rows}))


def transfers():
    """What PyTorch moves between pinned memory and the device, in GB/s."""
    import torch

    found = {}
    for megabytes in [64, 256]:
        host = torch.ones(megabytes << 18).pin_memory()
        device = host.cuda()
        for name, target, source in [("up", device, host), ("down", host, device)]:
            times = []
            for _ in range(12):
                torch.cuda.synchronize()
                start = time.perf_counter()
                target.copy_(source, non_blocking=True)
                torch.cuda.synchronize()
                times.append(time.perf_counter() - start)
            found[f"{name} {megabytes} MiB"] = (megabytes << 20) / statistics.median(times) / 1e9
    print(json.dumps(found))


def run(command, limit):
    """The JSON that a command prints last, or why there is none."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=limit, check=False)
    except (subprocess.TimeoutExpired, OSError) as error:
        return None, str(error)[:300]
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    whole = done.stdout[done.stdout.find("{"):] if "{" in done.stdout else ""
    for text in [whole, *reversed(lines)]:
        try:
            return json.loads(text), None
        except ValueError:
            continue
    return None, f"status {done.returncode}: {(done.stderr or done.stdout)[-300:]}"


def subjects(arguments):
    """Name, peer's name, and the arguments of `millstream bench`."""
    folder, found = arguments.out, []
    for dtype in ["f32", "f16"]:
        peer = f"minilm-{dtype}"
        found.append((f"{peer} layers", peer, ["--model", folder / peer]))
        onnx = ["--model", folder / f"{peer}.onnx", "--random", f"ids=1x{TOKENS}", "--range", f"ids=0..{VOCABULARY}"]
        found.append((f"{peer} session", peer, onnx))
    for name, shape in SHAPES.items():
        path = getattr(arguments, name)
        if path is not None:
            found.append((f"{name} session", name, ["--model", path, "--random", f"x={shape}"]))
    return [one for one in found if not arguments.only or any(part in one[0] for part in arguments.only)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millstream", type=pathlib.Path, default=HERE.parents[1] / "target/release/millstream")
    parser.add_argument("--det"), parser.add_argument("--rec")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("target/bench-models"))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8, 31])
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="parts of names, as in: f16 det")
    parser.add_argument("--torch", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.torch == "transfers":
        return transfers()
    if arguments.torch is not None:
        return torch_rows(arguments.torch, arguments)
    problems = make(arguments.out)
    chosen, rates = subjects(arguments), {}
    here = [sys.executable, __file__, "--out", arguments.out, "--seconds", arguments.seconds]
    for name in SHAPES:
        here += [f"--{name}", getattr(arguments, name)] if getattr(arguments, name) else []
    here += ["--threads", *arguments.threads]
    for _ in range(arguments.rounds):
        for name, peer, given in chosen:
            command = [arguments.millstream, "bench", "--device", "cuda", "--json", "--input", "host", *given]
            command += ["--threads", ",".join(map(str, arguments.threads)), "--seconds", arguments.seconds]
            for who, words in [(name, command), (f"{peer} PyTorch", [*here, "--torch", peer])]:
                if who.endswith("PyTorch") and name.endswith("layers") and f"{peer} session" in [one[0] for one in chosen]:
                    continue
                found, problem = run(words, 150)
                if problem is not None:
                    problems.append(f"{who}: {problem}")
                    continue
                for row in found["rows"]:
                    wrong = row.get("errors", 0) or row.get("mismatches", 0)
                    if wrong:
                        problems.append(f"{who}, {row['threads']} threads: wrong answers")
                    rates.setdefault((who, row["threads"]), []).append(row["calls_per_s"])
    moved, problem = run([sys.executable, __file__, "--torch", "transfers"], 60)
    print("what | " + " | ".join(f"{threads} threads" for threads in arguments.threads))
    for who in dict.fromkeys(who for who, _ in rates):
        row = [rates.get((who, threads)) for threads in arguments.threads]
        print(f"{who} | " + " | ".join(f"{statistics.median(r):,.0f}" if r else "–" for r in row))
    print("pinned memory, GB/s:", {name: round(rate, 1) for name, rate in (moved or {}).items()}, problem or "")
    for text in problems:
        print("PROBLEM", text)
    (arguments.out / "models.json").write_text(json.dumps([[*key, value] for key, value in rates.items()]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
