"""The soak itself: what it concludes from what it saw, and that it comes to an end."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from unittest.mock import Mock, patch

import pytest

from tests.chaos.soak import __main__ as soak
from tests.chaos.soak import pin
from tests.chaos.soak.record import Record, read
from tests.chaos.soak.verdict import LEAST, Probe, growth, is_pinned, judge

HOUR = 3600.0


def bursts(*, first: float, last: float, every: float = 15) -> list[Probe]:
    """Return an hour's bursts: as many messages a second `first`, and `last` in the last tenth."""
    times = [every * number for number in range(int(HOUR / every))]
    return [Probe(at, 1000, 1000 / (last if at >= 0.9 * HOUR else first)) for at in times]


@pytest.mark.parametrize(("last", "is_good"), [(2000, True), (1801, True), (1799, False)])
def test_the_last_tenth_must_do_nine_tenths_of_what_the_first_did(
    last: float, is_good: bool
) -> None:
    verdict = judge(bursts(first=2000, last=last), HOUR)

    assert verdict.ratio == pytest.approx(last / 2000)
    assert verdict.is_good is is_good
    assert LEAST == 0.9


def test_what_lies_between_the_two_tenths_decides_nothing() -> None:
    probes = [
        Probe(each.at, 1000, 100) if 0.1 * HOUR <= each.at < 0.9 * HOUR else each
        for each in bursts(first=2000, last=1900)
    ]

    assert judge(probes, HOUR).ratio == pytest.approx(0.95)


def test_a_burst_that_a_checkpoint_fell_into_decides_nothing() -> None:
    probes = bursts(first=2000, last=2000)
    probes[-1] = Probe(HOUR - 1, 1000, 60)

    assert judge(probes, HOUR).is_good


def test_a_short_run_compares_at_least_three_bursts_with_three() -> None:
    rates = [100, 300, 200, 1, 1, 90, 20, 50]
    probes = [Probe(10 * number, 100, 100 / rate) for number, rate in enumerate(rates)]

    verdict = judge(probes, 80)

    assert (verdict.first, verdict.last) == pytest.approx((200, 50))


def test_too_few_bursts_are_no_verdict() -> None:
    with pytest.raises(ValueError, match="5 bursts are too few"):
        judge([Probe(number, 1, 1) for number in range(5)], 10)


@pytest.mark.parametrize("minutes", [3, 45, 60, 100])
def test_a_snapshot_is_held_for_a_third_of_each_tenth(minutes: int) -> None:
    lasts = minutes * 60
    moments = [lasts * number / 10_000 for number in range(10_000)]

    held = [is_pinned(at, lasts) for at in moments]

    for tenth in range(10):
        assert sum(held[tenth * 1000 : (tenth + 1) * 1000]) == pytest.approx(333, abs=5)


def test_in_an_hour_a_snapshot_is_held_for_a_minute_each_time() -> None:
    held = [is_pinned(second, HOUR) for second in range(180)]

    assert held == [False] * 60 + [True] * 60 + [False] * 60


def test_a_counter_that_a_crash_set_back_goes_on_from_where_it_was() -> None:
    assert list(growth([2, 3, 3, 0, 1, 5, 1])) == [2, 3, 3, 3, 4, 8, 9]


def test_what_was_recorded_is_read_by_kind_in_the_order_of_time(tmp_path: Path) -> None:
    with Record(tmp_path / "raw") as record:
        with record.lasting("fault", name="outer"):
            record.write("sample", at=7, per_s=1)
        record.write("sample", at=3, per_s=2)

    lines = read(tmp_path / "raw")

    assert [each["per_s"] for each in lines["sample"]] == [2, 1]
    assert lines["fault"][0]["name"] == "outer"
    assert lines["fault"][0]["lasted"] >= 0


@pytest.mark.parametrize(("last", "status"), [(2000, 0), (1799, 1)])
def test_it_exits_with_1_where_it_has_become_slower(
    last: float, status: int, tmp_path: Path
) -> None:
    with (
        patch.object(soak, "soak", return_value=bursts(first=2000, last=last)),
        patch.dict(sys.modules, {"tests.chaos.soak.plot": Mock()}),
    ):
        assert soak.main(["--into", str(tmp_path)]) == status


@pytest.mark.smoke
@pytest.mark.nightly
@pytest.mark.timeout(420)  # so that a run which does not end says what is left
def test_a_run_ends_with_a_picture_and_its_raw_data(tmp_path: Path) -> None:
    # A third of a tenth of so short a run may pass within one fault.
    with patch.object(pin, "is_pinned", return_value=True):
        status = soak.main(["--minutes", "0.4", "--into", str(tmp_path)])

    # Of so few bursts chance decides which.
    assert status in (0, 1)
    assert (tmp_path / "soak.png").read_bytes().startswith(b"\x89PNG")
    raw = (tmp_path / "soak.jsonl").read_text().splitlines()
    assert {"run", "sample", "probe", "fault", "recovery", "pin"} <= {
        json.loads(line)["kind"] for line in raw
    }
