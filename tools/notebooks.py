"""Run the notebooks, and write back what they show.

    python -m tools.notebooks                                # write the outputs of all
    python -m tools.notebooks --check                        # only say whether all of them run
    python -m tools.notebooks notebooks/your-own-data.ipynb

Each runs in an empty temporary folder, by the interpreter that runs this.
"""

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from traitlets import default

NOTEBOOKS = sorted(Path(__file__).parent.parent.joinpath("notebooks").glob("*.ipynb"))
LONGEST = 300
"""Seconds of one cell, after which something hangs."""
OF_A_MACHINE = re.compile(r"file://|(?<![\w.])/(?:home|root|tmp|work|Users)/|[A-Z]:\\")
"""What no output may have in it: places on the machine that ran it."""


class ThisInterpreter(AsyncKernelManager):
    """Starts kernels of the interpreter that runs this."""

    @default("kernel_spec_manager")
    def _without_folders(self) -> KernelSpecManager:
        # A kernel that a user has installed under the same name may be of another interpreter.
        return KernelSpecManager(kernel_dirs=[], parent=self)


def executed(path: Path, folder: Path) -> NotebookNode:
    """The notebook with the outputs of all its cells, run in this folder."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        kernel_manager_class=ThisInterpreter,
        resources={"metadata": {"path": str(folder)}},
        timeout=LONGEST,
        record_timing=False,
        coalesce_streams=True,
    )
    with tempfile.TemporaryDirectory() as settings:  # whatever start-up files a user has
        client.execute(env={**os.environ, "IPYTHONDIR": settings})
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},  # without its version: the same everywhere
        }
    )
    return notebook


def texts(notebook: NotebookNode, kind: str = "text/") -> list[str]:
    """What the outputs say, in this form."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            shown = {"text/plain": output.text} if "text" in output else output.get("data", {})
            found += [text for form, text in shown.items() if form.startswith(kind)]
    return found


def places(notebook: NotebookNode) -> list[str]:
    """The lines of outputs that name a place on the machine that ran it."""
    lines = [line for text in texts(notebook) for line in text.splitlines()]
    return [line for line in lines if OF_A_MACHINE.search(line)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("notebooks", type=Path, nargs="*", default=NOTEBOOKS)
    parser.add_argument("--check", action="store_true", help="write nothing")
    chosen = parser.parse_args()
    failed = False
    for path in chosen.notebooks:
        try:
            with tempfile.TemporaryDirectory() as folder:
                notebook = executed(path, Path(folder))
        except (OSError, CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            print(f"{path.name} failed: {error}", file=sys.stderr)
            failed = True
            continue
        if named := places(notebook):
            print(f"{path.name} shows a place on this machine: {named[0]}", file=sys.stderr)
            failed = True
        elif not chosen.check:
            nbformat.write(notebook, path)
        print(f"{path.name} ran")
    sys.exit(failed)


if __name__ == "__main__":
    main()
