from pathlib import Path

import pytest

from fedfor.data import Availability
from fedfor.data.traces import EXAMPLE, Device, read_trace
from fedfor.errors import DataError

pytestmark = pytest.mark.fast


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "phones.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_reads_a_device_a_line(tmp_path: Path) -> None:
    path = written(tmp_path, EXAMPLE + '\r\n{}\n{"speed": 2, "there": null}\n{"period": 3}\n\n')
    whole = Device(((0, 8), (20, 24)), 24, 0.05, 0.5)
    assert read_trace(path) == (whole, Device(), Device(speed=2), Device(period=3))
    assert read_trace(written(tmp_path, b"\xef\xbb\xbf{}")) == (Device(),)  # with a mark of order


def test_a_trace_is_read_once(tmp_path: Path) -> None:
    path = written(tmp_path, '{"speed": 3}')
    for given in (path, str(path)):
        how = Availability(trace=given)
        assert how.devices == (Device(speed=3),)
    path.unlink()
    assert how.devices == (Device(speed=3),)
    assert Availability().devices == ()


def test_rounds_are_times_from_zero_and_ends_are_without() -> None:
    def rounds(device: Device) -> list[int]:
        return [t for t in range(1, 13) if device.is_there(t)]

    assert rounds(Device(((0, 1), (3, 5)))) == [1, 4, 5]
    assert rounds(Device(((0, 1), (3, 5)), period=5)) == [1, 4, 5, 6, 9, 10, 11]
    assert rounds(Device(((1, 3), (2, 4)), period=6)) == [2, 3, 4, 8, 9, 10]
    assert rounds(Device(())) == []
    assert Device(period=3).is_there(1) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{'speed': 1}", "is not JSON; write a device: {"),
        ("", "is not JSON; write a device: {"),
        pytest.param("[" * 10**5, "is not JSON; write a device: {", id="deep"),
        ("[0, 8]", "is not a table; write a device: {"),
        ('{"sped": 1}', ": a device has no 'sped'; did you mean 'speed' or"),
        ('{"speed": 0}', ": speed must be 1e-06 or more, at most 1e+06 (got 0)"),
        ('{"speed": 1e7}', ": speed must be 1e-06 or more, at most 1e+06 (got 1e+07)"),
        ('{"speed": "fast"}', ": speed must be a finite number"),
        ('{"speed": true}', ": speed must be a finite number"),
        ('{"speed": NaN}', ": speed must be a finite number"),
        ('{"dropout": 1.5}', ": dropout must be 0 or more, at most 1 (got 1.5)"),
        ('{"period": 0}', ": period must be 1 or more (got 0)"),
        ('{"period": 1.5}', ": period must be a whole number (got 1.5)"),
        pytest.param(f'{{"period": 1{"0" * 400}}}', ": a number is too large", id="large"),
        ('{"there": [0, 8]}', ": 'there' must be a list of pairs, such as [[0, 8], [20, 24]]"),
        ('{"there": [[0, 8, 9]]}', ": 'there' must be a list of pairs"),
        ('{"there": 3}', ": 'there' must be a list of pairs"),
        ('{"there": [[0, 1.5]]}', ": a time in 'there' must be a whole number (got 1.5)"),
        ('{"there": [[-1, 2]]}', ": a time in 'there' must be 0 or more (got -1)"),
        ('{"there": [["0", 2]]}', ": a time in 'there' must be a whole number (got '0')"),
        ('{"there": [[20, 4]], "period": 24}', ": 'there' goes from 20 to 4, and an end must be"),
        ('{"there": [[4, 4]]}', "over the end of a period, write two intervals"),
        ('{"there": [[0, 25]], "period": 24}', ": 'there' ends at 25, after its period of 24;"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, words: str) -> None:
    path = written(tmp_path, f"{{}}\n{line}\n{{}}\n")
    with pytest.raises(DataError) as error:
        Availability(trace=path)
    assert str(error.value).startswith(f"{path}, line 2")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_are_no_traces(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"availability.trace: there is no file .*none.jsonl"):
        read_trace(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match=r"availability.trace: .* cannot be read as text"):
        read_trace(tmp_path)
    with pytest.raises(DataError, match=r"availability.trace: .* cannot be read as text"):
        read_trace(written(tmp_path, b"\x80\x04\x95"))  # such as a pickle
    with pytest.raises(DataError, match=r"phones.jsonl is empty; write a device a line: \{"):
        read_trace(written(tmp_path, " \n\n"))
