"""A driver from outside the cluster, of whose workers one stands still: `ADDRESS FOLDER`."""

import faulthandler
import functools
import sys
from pathlib import Path

from ...processes import HANG
from .deadly import stopping
from .test_faults import ROUNDS, assert_undisturbed, on_cluster


def main(address: str, folder: Path) -> None:
    faulthandler.dump_traceback_later(HANG / 2, exit=True)  # so that a hang says where it is
    with on_cluster(address, functools.partial(stopping, flag=folder / "stopped")) as run:
        records = [run.round() for _ in range(ROUNDS)]
        assert_undisturbed(run, records)
    print(sum(record.get("slices_repeated", 0) for record in records))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
