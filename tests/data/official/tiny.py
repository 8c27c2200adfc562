"""Data sets of the official layouts, as small as they can be."""

import bz2
import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.io import savemat

Bytes = NDArray[np.uint8]

DOMAINNET = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")
DOMAINNET_CLASSES = (
    "bird", "feather", "headphones", "ice_cream", "teapot", "tiger", "whale", "windmill",
    "wine_glass", "zebra",
)  # fmt: skip
OFFICE_CLASSES = (
    "backpack", "bike", "calculator", "headphones", "keyboard", "laptop", "monitor", "mouse",
    "mug", "projector",
)  # fmt: skip


def pixels(*shape: int) -> Bytes:
    """Different everywhere, so that a wrong order shows."""
    return np.random.default_rng(sum(shape)).integers(0, 256, shape, np.uint8)


def cifar10_binary(root: Path, images: int = 2) -> Bytes:
    """The training images in order; image i has label i % 10."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    x = pixels(6 * images, 3072)
    y = np.arange(6 * images, dtype=np.uint8)[:, None] % 10
    rows = np.concatenate([y, x], axis=1)
    for i, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        rows[i * images : (i + 1) * images].tofile(folder / f"{name}.bin")
    return x[: 5 * images].reshape(-1, 3, 32, 32)


def cifar10_python(root: Path, protocol: int = 2) -> Bytes:
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    x = pixels(6, 3072)
    for i, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        batch = {
            b"data": x[i : i + 1],
            b"labels": [i],
            b"batch_label": b"one",
            b"filenames": [b"a"],
        }
        (folder / name).write_bytes(pickle.dumps(batch, protocol))
    return x[:5].reshape(-1, 3, 32, 32)


def mnist(root: Path, train: int = 12, test: int = 10, *, packed: bool = True) -> Bytes:
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for part, count in (("train", train), ("t10k", test)):
        x = pixels(count, 28, 28)
        y = np.arange(count, dtype=np.uint8) % 10
        files = {
            f"{part}-images-idx3-ubyte": struct.pack(">IIII", 2051, count, 28, 28) + x.tobytes(),
            f"{part}-labels-idx1-ubyte": struct.pack(">II", 2049, count) + y.tobytes(),
        }
        for name, raw in files.items():
            path = folder / (f"{name}.gz" if packed else name)
            path.write_bytes(gzip.compress(raw) if packed else raw)
    return pixels(train, 28, 28)


def usps(root: Path, train: int = 12, test: int = 10) -> NDArray[np.float64]:
    (root / "usps").mkdir(parents=True)
    for file, count in (("usps.bz2", train), ("usps.t.bz2", test)):
        values = np.round(pixels(count, 256) / 127.5 - 1, 3)
        lines = [
            f"{i % 10 + 1} " + " ".join(f"{n}:{v:g}" for n, v in enumerate(row, 1))
            for i, row in enumerate(values)
        ]
        (root / "usps" / file).write_bytes(bz2.compress(("\n".join(lines) + "\n").encode()))
    return np.round(pixels(train, 256) / 127.5 - 1, 3)


def svhn(root: Path, train: int = 12, test: int = 10) -> Bytes:
    """Labels 1 to 10, of which 10 stands for the digit 0."""
    _mat(root / "svhn", "train_32x32.mat", train, np.arange(train) % 10 + 1)
    _mat(root / "svhn", "test_32x32.mat", test, np.arange(test) % 10 + 1)
    return pixels(32, 32, 3, train).transpose(3, 2, 0, 1)


def synth_digits(root: Path, train: int = 12, test: int = 10) -> None:
    _mat(root / "synth_digits", "synth_train_32x32.mat", train, np.arange(train) % 10)
    _mat(root / "synth_digits", "synth_test_32x32.mat", test, np.arange(test) % 10)


def _mat(folder: Path, name: str, count: int, labels: NDArray[np.int64]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {"X": pixels(32, 32, 3, count), "y": labels[:, None].astype(np.uint8)}
    savemat(folder / name, arrays, do_compression=True)


def mnist_m(root: Path, train: int = 12, test: int = 10) -> Bytes:
    for part, count in (("train", train), ("test", test)):
        folder = root / "mnist_m" / f"mnist_m_{part}"
        folder.mkdir(parents=True)
        lines = []
        for i, image in enumerate(pixels(count, 32, 32, 3)):
            Image.fromarray(image).save(folder / f"{i:08d}.png")
            lines.append(f"{i:08d}.png {i % 10}\n")
        (root / "mnist_m" / f"mnist_m_{part}_labels.txt").write_text("".join(lines))
    return pixels(train, 32, 32, 3).transpose(0, 3, 1, 2)


def photo(path: Path, shade: int, mode: str = "RGB", size: tuple[int, int] = (8, 6)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, shade if mode == "L" else (shade, 0, 0, 9)[: len(mode)]).save(path)


def office_caltech(root: Path, images: int = 5) -> None:
    """The shade of an image is its class, times 20."""
    for domain in ("amazon", "caltech10", "dslr", "webcam"):
        for label, name in enumerate(OFFICE_CLASSES):
            for i in range(images):
                path = root / "office_caltech_10" / domain / name / f"frame_{i:04d}.png"
                photo(path, 20 * label)


def domainnet(root: Path, images: int = 5) -> None:
    """With a class that is none of the ten."""
    for domain in DOMAINNET:
        for label, name in enumerate((*DOMAINNET_CLASSES, "aircraft_carrier")):
            for i in range(images):
                photo(root / "DomainNet" / domain / name / f"{domain}_{i:06d}.png", 20 * label)
