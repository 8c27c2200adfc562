"""The Triton convolutions of many lanes against cuDNN's grouped ones, on a GPU.

    PYTHONPATH=src python3 benchmarks/convolutions.py --json convolutions.json

For every layer and direction: milliseconds of the library's choice of blocks, of the best of a few
other choices, and of cuDNN (channels last, a group for each lane), with the rate at which the
least possible bytes (both inputs read once, the output written once) move. Times are medians of
replays of a CUDA graph. No figure of a choice is printed unless its values are right.
"""

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from fedfor.engines.vector import triton_conv
from fedfor.engines.vector.triton_blocks import Blocks, make_blocks

KINDS = ("forward", "input_gradient", "weight_gradient")
CALLS, REPLAYS = 5, 5
CHOOSE = triton_conv.choose_blocks


class Layer(NamedTuple):
    lanes: int
    batch: int
    size: int
    channels: int
    out: int
    stride: int
    padding: int
    dtype: torch.dtype

    def __str__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        return f"{self.size:>2}² {self.channels:>2}->{self.out:<2} /{self.stride} {kind}"

    @property
    def out_size(self) -> int:
        return (self.size + 2 * self.padding - 3) // self.stride + 1


def layers(lanes: int) -> list[Layer]:
    resnet = [(32, 3, 16, 1), (32, 16, 16, 1), (32, 16, 32, 2)]
    resnet += [(16, 32, 32, 1), (16, 32, 64, 2), (8, 64, 64, 1)]
    small = [(32, 3, 32, 1), (30, 32, 64, 1)]
    return [Layer(lanes, 128, *shape, 1, torch.bfloat16) for shape in resnet] + [
        Layer(50, 10, *shape, 0, dtype)
        for dtype in (torch.bfloat16, torch.float32)
        for shape in small
    ]


def ours(kind: str, layer: Layer) -> Callable[[], Tensor]:
    torch.manual_seed(0)
    x, w, gy = (
        torch.randn(*shape, device="cuda", dtype=layer.dtype)
        for shape in (
            (layer.lanes, layer.batch, layer.size, layer.size, layer.channels),
            (layer.lanes, 3, 3, layer.channels, layer.out),
            (layer.lanes, layer.batch, layer.out_size, layer.out_size, layer.out),
        )
    )
    rest = [layer.stride] * 2, [layer.padding] * 2, True
    return {
        "forward": lambda: triton_conv.conv_forward(x, w, *rest),
        "input_gradient": lambda: triton_conv.conv_input_gradient(gy, w, [layer.size] * 2, *rest),
        "weight_gradient": lambda: triton_conv.conv_weight_gradient(gy, x, [3, 3], *rest),
    }[kind]


def cudnn(kind: str, layer: Layer) -> Callable[[], Any]:
    lanes, batch = layer.lanes, layer.batch
    options: dict[str, Any] = {"device": "cuda", "dtype": layer.dtype}
    x = torch.randn(batch, lanes * layer.channels, layer.size, layer.size, **options)
    gy = torch.randn(batch, lanes * layer.out, layer.out_size, layer.out_size, **options)
    w = torch.randn(lanes * layer.out, layer.channels, 3, 3, **options)
    x, gy, w = (tensor.contiguous(memory_format=torch.channels_last) for tensor in (x, gy, w))
    rest = [layer.stride] * 2, [layer.padding] * 2, [1, 1], False, [0, 0], lanes
    if kind == "forward":
        return lambda: torch.ops.aten.convolution(x, w, None, *rest)
    mask = [kind == "input_gradient", kind == "weight_gradient", False]
    return lambda: torch.ops.aten.convolution_backward(gy, x, w, None, *rest, mask)


def least_bytes(kind: str, layer: Layer) -> int:
    item = layer.dtype.itemsize
    x = layer.batch * layer.size**2 * layer.channels * item
    y = layer.batch * layer.out_size**2 * layer.out * item
    w = 9 * layer.channels * layer.out * (4 if kind == "weight_gradient" else item)
    return layer.lanes * (x + y + w)


def default_blocks(kind: str, layer: Layer) -> Blocks:
    inner, outer = layer.channels, layer.out
    if kind == "input_gradient":
        inner, outer = outer, inner
    stride = (layer.stride, layer.stride)
    return CHOOSE(kind, (3, 3), stride, inner, outer, True, layer.dtype.itemsize)


def candidates(kind: str, layer: Layer) -> list[Blocks]:
    """The default first, then a few others."""
    default = default_blocks(kind, layer)
    backward = kind == "input_gradient"
    inner, outer = layer.channels, layer.out
    if backward:
        inner, outer = outer, inner
    scale = layer.stride if backward else 1
    plain = (default.tile[0] // scale, default.tile[1] // scale)
    other = {(2, 2): (1, 2), (1, 2): (2, 2), (1, 1): (1, 2)}[plain]

    def build(
        tile: tuple[int, int], m: int, k: int, warps: int, stages: int = 1, rows: bool = False
    ) -> Blocks:
        cut, stride = (tile[0] * scale, tile[1] * scale), (layer.stride,) * 2
        return make_blocks(kind, cut, (3, 3), stride, inner, outer, m, k, 128, warps, stages, rows)

    if kind == "weight_gradient":
        choices = [
            build(plain, 32, 256, 8),
            build(plain, 64, 128, 4),
            build(other, 64, 256, 8),
            build((1, 1), 64, 128, 8, 3),
            build(plain, 32, 256, 8, 3),
        ]
    else:
        choices = [
            build(plain, 128, 64, 4),
            build(plain, 128, 256, 8),
            build(other, 128, 64, 8),
            build((1, 1), 128, 64, 4, 3),
            build(plain, 128, 64, 8, 3),
        ]
    if layer.stride == 1:
        choices += [build((1, 1), 64, 64, 4, 2, True), build((1, 2), 64, 128, 4, 2, True)]
        choices += [build((1, 2), 128, 128, 8, 3, True)]
    return list(dict.fromkeys([default, *choices]))


def use(blocks: Blocks) -> None:
    triton_conv.choose_blocks = lambda *_: blocks


def first_line(error: Exception) -> str:
    return (f"{type(error).__name__}: {error}".splitlines() or [""])[0][:110]


def compile_one(task: tuple[str, Layer, Blocks]) -> None:
    """Into Triton's cache on disk: a lane by itself has the same kernels."""
    kind, layer, blocks = task
    use(blocks)
    try:
        ours(kind, layer._replace(lanes=1))()
    except Exception:
        return  # the measurement will meet the same error, and print it


def milliseconds(call: Callable[[], Any]) -> float:
    call()
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    times = []
    for _ in range(REPLAYS + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / CALLS)
    return statistics.median(times[1:])


def measure(kind: str, layer: Layer, choices: list[Blocks], with_cudnn: bool) -> dict[str, Any]:
    call = ours(kind, layer)
    expected = None
    tried: list[dict[str, Any]] = []
    for blocks in choices:
        use(blocks)
        try:
            values = call().float()
            expected = values if expected is None else expected
            error = float((values - expected).norm() / expected.norm())
            if not error < 1e-2:
                raise ArithmeticError(f"differs from the default by {error:.2g}")
            tried.append({"blocks": blocks, "ms": milliseconds(call)})
        except Exception as error:
            print(f"  {layer} {kind} {tuple(blocks)}: {first_line(error)}", flush=True)
            tried.append({"blocks": blocks, "error": first_line(error)})
    reference = None
    if with_cudnn:
        try:
            reference = milliseconds(cudnn(kind, layer))
        except Exception as error:
            print(f"  {layer} {kind} cudnn: {first_line(error)}", flush=True)
    return {
        "layer": str(layer),
        "kind": kind,
        "bytes": least_bytes(kind, layer),
        "cudnn_ms": reference,
        "ours": tried,
    }


def show(row: dict[str, Any]) -> str:
    def cell(ms: float | None) -> str:
        return (
            "      -         " if ms is None else f"{ms:7.3f} {row['bytes'] / ms / 1e6:5.0f} GB/s"
        )

    runs = [one for one in row["ours"] if "ms" in one]
    best = min(runs, key=lambda one: one["ms"], default={})
    default = row["ours"][0].get("ms")
    return (
        f"{row['layer']:<22} {row['kind']:<15} {cell(default)} | {cell(best.get('ms'))} | "
        f"{cell(row['cudnn_ms'])} | {tuple(best.get('blocks', ()))}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="where to write all figures")
    parser.add_argument("--lanes", type=int, default=80)
    parser.add_argument("--seconds", type=float, default=90, help="then no more candidates")
    parser.add_argument("--jobs", type=int, default=8, help="processes that compile")
    parser.add_argument("--no-cudnn", action="store_true")
    options = parser.parse_args()
    started = time.monotonic()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = True

    # The gradient of a network's input is of no use.
    cases = [
        (kind, layer)
        for layer in layers(options.lanes)
        for kind in KINDS
        if layer.channels != 3 or kind != "input_gradient"
    ]
    tasks = [(*case, blocks) for case in cases for blocks in candidates(*case)]
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        done = pool.imap_unordered(compile_one, tasks)
        for _ in tasks:
            try:
                done.next(timeout=max(0.0, options.seconds * 0.6 - (time.monotonic() - started)))
            except multiprocessing.TimeoutError:
                print("compilation goes on without the other processes")
                break
    print(f"{len(tasks)} kernels compiled after {time.monotonic() - started:.0f} s", flush=True)

    print(
        f"{'layer':<22} {'direction':<15} {'ours, ms':<18} | {'best':<18} | {'cudnn':<18} | blocks"
    )
    rows = []
    for kind, layer in cases:
        choices = candidates(kind, layer)
        if time.monotonic() - started > options.seconds:
            choices = choices[:1]
        rows.append(measure(kind, layer, choices, not options.no_cudnn))
        print(show(rows[-1]), flush=True)
        if options.json:
            versions = {"torch": torch.__version__, "triton": triton.__version__}
            device = torch.cuda.get_device_name()
            document = {"device": device, **versions, "lanes": options.lanes, "rows": rows}
            options.json.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
