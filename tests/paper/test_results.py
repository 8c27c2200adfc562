import json
from pathlib import Path

import pytest

from fedfor.errors import FolderError
from fedfor.paper.results import Results, load_results

from .made import results


def test_saved_and_loaded_again(tmp_path: Path) -> None:
    made = results().in_order()
    made.save(tmp_path / "results.json")
    loaded = load_results([tmp_path])
    assert loaded == made
    lines = (tmp_path / "results.json").read_text().splitlines()
    assert sum('"seed"' in line for line in lines) == len(made.outcomes)  # a cell a line
    json.loads("\n".join(lines))


def test_files_of_one_study_go_together_and_the_later_one_wins(tmp_path: Path) -> None:
    whole = results()
    early = Results(whole.study, whole.made, [], [o for o in whole.outcomes if o.seed < 2])
    other = {**whole.made[0], "commit": "def"}
    late = Results(whole.study, [other], ["a note"], [o for o in whole.outcomes if o.seed > 0])
    early.save(tmp_path / "early.json")
    late.save(tmp_path / "late.json")
    both = load_results([tmp_path / "early.json", tmp_path / "late.json"])
    assert sorted(o.key for o in both.outcomes) == sorted(o.key for o in whole.outcomes)
    assert both.notes == ["a note"]
    commits = {o.seed: both.made[o.made]["commit"] for o in both.outcomes}
    assert commits == {0: "abc", 1: "def", 2: "def"}
    assert both.seconds == pytest.approx(2.0 * len(whole.outcomes))


def test_what_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=r"no results in .*results\.json; make some with"):
        load_results([tmp_path])
    for content in ("", "{", "[]", '{"study": "x"}', '{"study": {}, "made": [], "cells": []}'):
        (tmp_path / "results.json").write_text(content)
        with pytest.raises(FolderError, match="holds no results of 'fedfor reproduce'"):
            load_results([tmp_path])


def test_of_different_studies(tmp_path: Path) -> None:
    one = results()
    two = Results(one.study.model_copy(update={"name": "other"}), one.made, [], one.outcomes)
    one.save(tmp_path / "one.json")
    two.save(tmp_path / "two.json")
    with pytest.raises(FolderError, match="of made and of other do not go together"):
        load_results([tmp_path / "one.json", tmp_path / "two.json"])
