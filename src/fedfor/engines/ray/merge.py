"""Adding up the sums of slices, in a tree over the workers that have made them."""

from collections.abc import Sequence
from typing import Any

from ...protocol import Partial
from ...protocol.tree import Node
from ..engine import Summed
from .cluster import imported
from .crew import Crew
from .parcel import unpack

FAN_IN = 8
"""Slices whose sums one worker adds up."""

LONGEST = 600.0
"""Seconds that carrying sums may take."""


class LostSumsError(Exception):
    """Sums went with the machine that they were on: these slices must be trained again."""

    def __init__(self, places: Sequence[int]) -> None:
        super().__init__(f"sums of {len(places)} slices are lost")
        self.places = list(places)
        """None: it was whoever added them up."""


def merged(crew: Crew, sums: Sequence[Any]) -> Summed:
    """What all slices come to: the driver gets one sum, however many there are."""
    ray = imported()
    parts, whole = list(sums), False
    try:
        while not whole:
            whole = len(parts) <= FAN_IN
            groups = [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)]
            adders = crew.idle()
            if not adders:
                raise LostSumsError(_lost(sums))
            parts = [
                adders[place % len(adders)].actor.fold.remote(whole, *group)
                for place, group in enumerate(groups)
            ]
        nodes: list[Node[Partial]] = unpack(ray.get(parts[0], timeout=LONGEST))
    except ray.exceptions.RayError as error:
        raise LostSumsError(_lost(sums)) from error
    return Summed(nodes)


def _lost(sums: Sequence[Any]) -> list[int]:
    """Which of them nobody has any more. None may be: then it was a worker, while adding."""
    ray = imported()
    found = []
    for place, reference in enumerate(sums):
        try:
            ray.get(reference, timeout=LONGEST)
        except ray.exceptions.RayError:
            found.append(place)
    return found
