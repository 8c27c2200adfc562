import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from fedfor.data import Availability, Caller, IidDraws
from fedfor.data.traces import read_trace
from fedfor.errors import ConfigError
from fedfor.experiments.build import build_availability
from fedfor.experiments.config import AvailabilityConfig
from fedfor.experiments.folder import _plain
from fedfor.experiments.load import load_config

from ..conftest import made_data

pytestmark = pytest.mark.fast

PAGE = (Path(__file__).parent.parent.parent / "docs/availability.md").read_text()


def test_without_the_section_everyone_is_always_there() -> None:
    config = load_config({})
    assert "availability" not in _plain(config)
    assert build_availability(config) is None


def test_one_setting_brings_the_section() -> None:
    config = load_config({}, ["availability.dropout=0.1", "availability.deadline=2"])
    assert build_availability(config) == Availability(dropout=0.1, deadline=2.0)
    assert build_availability(load_config({"availability": {}})) == Availability()


def test_the_section_says_what_the_class_does() -> None:
    defaults = AvailabilityConfig().model_dump()
    assert Availability(**defaults) == Availability()
    for name, value in defaults.items():
        assert getattr(Availability(), name) == value


def test_a_trace_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "phones.jsonl").write_text('{"speed": 0.5}\n')
    monkeypatch.chdir(tmp_path)
    config = load_config({}, ["availability.trace=phones.jsonl", "availability.least=2"])
    monkeypatch.chdir("/")
    again = load_config(tomllib.loads(tomli_w.dumps(_plain(config))))
    assert again == config
    built = build_availability(again)
    assert built == Availability(least=2, trace=tmp_path / "phones.jsonl")


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"rate": 1.5}, "availability.rate: input should be less than or equal to 1 (got 1.5)"),
        ({"dropout": -1}, "availability.dropout: input should be greater than or equal to 0"),
        ({"slowness": 11}, "availability.slowness: input should be less than or equal to 10"),
        ({"over_sampling": 0.5}, "availability.over_sampling: input should be greater than or equ"),
        ({"deadline": 0}, "availability.deadline: input should be greater than 0 (got 0)"),
        ({"deadline": float("inf")}, "availability.deadline: input should be a finite number"),
        ({"rate": float("nan")}, "availability.rate: input should be"),
        ({"least": 0}, "availability.least: input should be greater than or equal to 1 (got 0)"),
        ({"drop_out": 0.1}, "availability.drop_out: no such setting; did you mean 'dropout'"),
    ],
)
def test_mistakes_are_told_in_a_sentence(tables: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config({"availability": tables}, source="my.toml")
    assert words in str(error.value)


def test_the_page_shows_what_can_be_read(tmp_path: Path) -> None:
    (settings,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (devices,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "phones.jsonl").write_text(devices)
    assert len(read_trace(tmp_path / "phones.jsonl")) == devices.count("\n") > 2
    config = load_config(tomllib.loads(settings))
    assert config.availability is not None
    given = {f"{name} = " for name in AvailabilityConfig.model_fields}
    caller = Caller(IidDraws(made_data(), 9, 0, 5), 3, 0, Availability(dropout=1))
    given |= {f"| `{key}` |" for key in caller.call(1).told}
    assert {word for word in given if word not in PAGE} == set()
    options = re.findall(r"--set (\S+)", PAGE)
    assert options
    assert load_config({}, options).availability is not None
