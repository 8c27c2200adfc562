"""Numbers as people read them, also where rounding brings them to the next digit or unit."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fedfor.report.quantities import lasting, mebibytes, per_cent, short, sized, whole

pytestmark = pytest.mark.fast

MIB = 2**20


def check(written: Callable[[Any], str], expected: Mapping[Any, str]) -> None:
    assert {value: written(value) for value in expected} == expected


def test_numbers_have_three_digits_and_no_exponent() -> None:
    check(
        short,
        {None: "-", 0: "0", 0.9999: "1.00", 0.9994: "0.999", 1.005: "1.00", 9.996: "10.0",
         99.96: "100", 123.4: "123", 999.6: "1,000", 12_345: "12,300", 1e9: "1,000,000,000",
         0.00123456: "0.00123", 1e-7: "0.000000100", -2.5: "-2.50"},
    )  # fmt: skip
    check(per_cent, {0.0: "0 %", 0.5: "50.0 %", 0.9999: "100 %", 1e-7: "0.0000100 %"})


def test_whole_numbers_are_whole_and_large_powers_are_named() -> None:
    check(
        whole,
        {None: "-", 0: "0", 1: "1", 999: "999", 1_000: "1,000", 10_000: "10,000", 10**5: "10^5",
         10**10: "10^10", 2 * 10**5: "200,000", 10**10 + 1: "10,000,000,001"},
    )  # fmt: skip


def test_bytes_have_a_handy_unit() -> None:
    check(
        sized,
        {None: "-", 0: "0 B", 5: "5 B", 1_000: "1,000 B", 1_023: "1,023 B", 1_024: "1.00 KiB",
         999.6 * MIB: "1,000 MiB", 1024 * MIB: "1.00 GiB", 2.5 * 2**40: "2.50 TiB",
         3_000 * 2**50: "3,000 PiB"},
    )  # fmt: skip
    check(mebibytes, {None: "-", 0: "0", 1.6 * MIB: "2", 12_345 * MIB: "12,345"})


def test_times_have_a_handy_unit() -> None:
    check(
        lasting,
        {None: "-", 0.0: "0 us", 2.5e-6: "2.50 us", 999.9e-6: "1.00 ms", 0.25: "250 ms",
         0.9999: "1.00 s", 1.0: "1.00 s", 59.4: "59.4 s", 59.99: "1.00 min", 3_599.9: "1.00 h",
         7_200.0: "2.00 h", 86_399.0: "1.00 days", 864_000.0: "10.0 days"},
    )  # fmt: skip
