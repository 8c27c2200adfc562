"""Adding up in an order that depends on places alone."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Node(Generic[T]):
    """What the leaves from `index * 2**level` on, 2**level of them, come to."""

    level: int
    index: int
    value: T

    @property
    def first(self) -> int:
        return self.index << self.level


class Tree(Generic[T]):
    """A sum over leaves that are numbered from 0, pair by pair, as in a knock-out tournament.

    Whoever adds up which part of it, and in whatever order parts come, the same pairs are added:
    so the sum is the same to the last bit. Of leaves that come in order, one node a level is left.
    """

    def __init__(self, add: Callable[[T, T], T]) -> None:
        self._add = add
        self._nodes: dict[tuple[int, int], T] = {}

    def put(self, node: Node[T]) -> None:
        """Add a part. It may be changed by what it is added to."""
        level, index, value = node.level, node.index, node.value
        while (other := self._nodes.pop((level, index ^ 1), None)) is not None:
            value = self._add(value, other) if index % 2 == 0 else self._add(other, value)
            level, index = level + 1, index // 2
        self._nodes[level, index] = value

    def nodes(self) -> list[Node[T]]:
        """What could not be added up yet, in the order of the leaves."""
        found = [Node(level, index, value) for (level, index), value in self._nodes.items()]
        return sorted(found, key=lambda node: node.first)

    def root(self) -> T | None:
        """The sum over all leaves, which must be there from 0 on; None without any."""
        left = self.nodes()
        expected = 0
        for node in left:
            if node.first != expected:
                raise ValueError(f"leaf {expected} is missing")
            expected += 1 << node.level
        if not left:
            return None
        total = left.pop().value
        while left:
            total = self._add(left.pop().value, total)
        return total


def folded(
    add: Callable[[T, T], T], nodes: Iterable[Node[T]], whole: bool = False
) -> list[Node[T]]:
    """Parts of a sum, as far as they can be added up among themselves; if they are the `whole` of
    it, all to one, which is the root of any tree that it is put into."""
    tree = Tree(add)
    for node in nodes:
        tree.put(node)
    root = tree.root() if whole else None
    return tree.nodes() if root is None else [Node(0, 0, root)]
