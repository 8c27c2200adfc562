import bz2
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...errors import in_short
from ..labelled import Rows
from .problems import broken, unread
from .sources import Part

NAME = "usps"
PIXELS = 16 * 16


def read_usps(root: Path) -> tuple["UspsFile", "UspsFile"]:
    return UspsFile(root / "usps" / "usps.bz2"), UspsFile(root / "usps" / "usps.t.bz2")


@dataclass(frozen=True)
class UspsFile:
    """LIBSVM's format: lines of a label from 1 to 10 and of 256 numbered values from -1 to 1."""

    path: Path

    def __len__(self) -> int:
        try:
            with bz2.open(self.path) as file:
                return sum(1 for line in file if line.strip())
        except OSError as error:
            raise unread(NAME, self.path, error) from error
        except EOFError as error:
            raise broken(NAME, self.path, in_short(error)) from error

    def take(self, rows: Rows | None = None) -> Part:
        from sklearn.datasets import load_svmlight_file

        try:
            table, digits = load_svmlight_file(str(self.path), n_features=PIXELS, zero_based=False)
        except OSError as error:
            raise unread(NAME, self.path, error) from error
        except EOFError as error:
            raise broken(NAME, self.path, in_short(error)) from error
        except (ValueError, OverflowError) as error:
            why = f"it is not LIBSVM's format: {in_short(error)}"
            raise broken(NAME, self.path, why) from error
        if len(digits) == 0:
            raise broken(NAME, self.path, "it has no lines")
        if (short := np.flatnonzero(np.diff(table.indptr) != PIXELS)).size:
            raise broken(NAME, self.path, f"line {short[0] + 1} has not {PIXELS} values")
        if not np.isin(digits, np.arange(1, 11)).all():
            raise broken(NAME, self.path, "it has a label outside 1 to 10")
        x = table.toarray().astype(np.float32)
        if not (np.abs(x) <= 1).all():
            raise broken(NAME, self.path, "it has a value outside -1 to 1")
        return Part(x.reshape(-1, 1, 16, 16), digits.astype(np.int64) - 1).take(rows)
