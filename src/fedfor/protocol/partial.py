from dataclasses import dataclass, replace

from ..tensors import Extras, copies


@dataclass
class Partial:
    """What the replies of some clients of a round come to. Sums are in float64."""

    clients: int
    weight: float
    """The sum of what the clients count in the average."""
    steps: int
    nbytes: int
    """Bytes that came up."""
    sums: Extras
    """Of models, each by its weight, of extras, and of what agreement is told from."""

    def copied(self) -> "Partial":
        """The same, in memory that may be changed."""
        return replace(self, sums={key: copies(tensors) for key, tensors in self.sums.items()})

    def plus(self, other: "Partial") -> "Partial":
        """Both together, in the memory of this one."""
        self.clients += other.clients
        self.weight += other.weight
        self.steps += other.steps
        self.nbytes += other.nbytes
        for key, tensors in self.sums.items():
            for name, total in tensors.items():
                total.add_(other.sums[key][name])
        return self
