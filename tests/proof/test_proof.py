"""The proof itself: it comes to an end, and its report tells what happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.harness.stage import SEED
from tests.proof.checker.account import Account, account_of
from tests.proof.checker.anomaly import Anomaly
from tests.proof.checker.rules import RULES, check
from tests.proof.director import Ran, prove
from tests.proof.report import Report
from tests.proof.test_checker import enqueue, row


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_half_a_minute_of_load_and_faults_shows_no_anomaly(tmp_path: Path) -> None:
    logs = tmp_path / "history"
    logs.mkdir()

    ran = prove(logs, tmp_path, lasts=25, only={"kill_a_worker", "kill_a_maker", "stop_a_process"})

    account = account_of(logs)
    report = Report(ran, account, check(account), seed=SEED)
    assert report.is_good, report.text()
    assert ran.faults.total() >= 2
    done = {each.do for each in account.operations if each.end == "ok"}
    assert done >= {"enqueue", "publish", "run", "read", "fault", "limit"}
    assert {each["kind"] for _, each in account.enqueued.values()} >= {"in_steps", "member"}


def report_of(*anomalies: Anomaly, complaint: str = "") -> Report:
    account = Account([enqueue(0, 1)], {"messages": [row(1)]})
    ran = Ran(seconds=60, complaint=complaint)
    found = {promise: list(anomalies) for promise in list(RULES)[:1]}
    return Report(ran, account, found, seed="7")


def test_a_report_shows_the_shortest_history() -> None:
    shown = report_of(Anomaly("lost", "message <1> is gone", [enqueue(0, 1)]))

    assert not shown.is_good
    assert "1 anomalies; seed 7" in shown.summary
    assert "message &lt;1&gt; is gone" in shown.page()
    assert "enqueue ok" in shown.page()
    assert "lost, 1 times: message <1> is gone" in shown.text()


def test_a_report_without_an_anomaly_is_good_if_the_run_came_to_its_end() -> None:
    assert report_of().is_good
    assert "No anomaly" in report_of().page()
    assert not report_of(complaint="it stood still").is_good
