"""All files that are made from the figures of `fedfor scale`."""

from importlib.util import find_spec
from pathlib import Path

from ..experiments.folder import write_atomically
from ..experiments.scale_results import ScaleResults
from .deployment import deployment_markdown, deployment_title
from .scale import scale_markdown

FIGURES = ("scale.svg", "scale.png")
TABLE, DEPLOYMENT = "table.md", "deployment.md"


def write_scale_files(results: ScaleResults, folder: Path) -> str:
    """The table, the page and the figure; a word about what could not be made."""
    left_out = ""
    write_atomically(folder / TABLE, scale_markdown(results).encode())
    if results.costs:
        text = f"# {deployment_title()}\n\n{deployment_markdown(results)}"
        write_atomically(folder / DEPLOYMENT, text.encode())
    else:
        left_out += f"; no {DEPLOYMENT}, as no model's costs could be taken"
    if find_spec("matplotlib") is None:
        return left_out + "; for the figure: pip install 'fedfor[report]'"
    if not any(one.a_round for one in results.cases):
        return left_out + "; no figure, as no case was measured"
    from .plots.save import save
    from .plots.scale import draw_scale

    for name in FIGURES:
        save(draw_scale(results), folder / name, dpi=150)
    return left_out
