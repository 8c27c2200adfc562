"""How many clients fit at once."""

import torch
from torch import Tensor

from .model import StackedModel
from .noise import Recorded

SHARE_OF_FREE = 0.8
"""What is left of the device's free memory is for the allocator, the graphs and the evaluation."""

CPU_BYTES = 2**28
"""A stack larger than this gains nothing more on a CPU and leaves its caches."""

CPU_COPIES = 6
"""Rows of weights held for a client: weights, gradients, their sum, momentum, what was kept."""


def bytes_a_lane(model: StackedModel, x: Tensor, y: Tensor, rows_kept: int) -> int:
    """What one more client takes on a GPU: measured, by a step with 2 and with 4 of them.

    `rows_kept` counts the rows of weights that the algorithms hold for each client.
    """
    peaks = []
    row = model.layout.row(dict(model.model.named_parameters()), model.like).detach()
    held = {n: b for n, b in model.model.named_buffers() if n in model.buffer_names}
    for lanes in (2, 4):
        torch.cuda.synchronize(model.device)
        torch.cuda.reset_peak_memory_stats(model.device)
        before = torch.cuda.memory_allocated(model.device)
        model.gradients(
            row.expand(lanes, -1).contiguous(),
            {n: b.expand(lanes, *b.shape).contiguous() for n, b in held.items()},
            x.expand(lanes, *x.shape).contiguous(),
            y.expand(lanes, *y.shape).contiguous(),
            None,
            Recorded(),
        )
        torch.cuda.synchronize(model.device)
        peaks.append(torch.cuda.max_memory_allocated(model.device) - before)
    return (peaks[1] - peaks[0]) // 2 + rows_kept * row.numel() * row.element_size()


def lanes_that_fit(a_lane: int, device: torch.device) -> int:
    free, _ = torch.cuda.mem_get_info(device)
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return max(1, int(SHARE_OF_FREE * (free + held) / a_lane))


def lanes_on_cpu(model: StackedModel, samples: int) -> int:
    a_lane = (CPU_COPIES * model.layout.width + 8 * samples) * model.like.element_size()
    return max(8, CPU_BYTES // a_lane)
