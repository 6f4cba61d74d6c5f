"""The workloads of `millstream bench` as PyTorch models: how each is built, and the shape of its input."""

from torch import nn


def linears(sizes):
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def conv1d():
    layers = []
    for channels in (80, 256, 256):
        layers += [nn.Conv1d(channels, 256, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers)


WORKLOADS = {
    "mm": (lambda: nn.Sequential(nn.Linear(512, 512, bias=False), nn.ReLU()), (512, 512)),
    "mlp": (lambda: linears([512, 1024, 1024, 512]), (1, 512)),
    "mlp-large": (lambda: linears([2048, 2048, 2048]), (64, 2048)),
    "conv1d": (conv1d, (1, 80, 200)),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True),
        (1, 128, 256),
    ),
}
