"""The proof itself: it comes to an end, and its report tells what happened."""

from __future__ import annotations

from contextlib import ExitStack, closing, suppress
from itertools import count
from pathlib import Path
from threading import Thread

import psycopg
import pytest

from tests.chaos.harness.server import Server, home
from tests.chaos.harness.stage import SEED
from tests.chaos.harness.standby import trailing
from tests.eventually import eventually
from tests.proof.checker.account import Account, account_of
from tests.proof.checker.anomaly import Anomaly
from tests.proof.checker.rules import RULES, check
from tests.proof.director import Ran, prove
from tests.proof.histories import enqueue, row
from tests.proof.operations import OperationLog, now
from tests.proof.report import Report
from tests.proof.straggler import Straggler


def test_operations_of_two_processes_with_one_id_have_different_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROOF_LOG", str(tmp_path))

    assert OperationLog().name() != OperationLog().name()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.nightly
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


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_straggler_has_what_was_acknowledged_until_then_and_a_part_of_the_rest() -> None:
    with home("behind") as folder, ExitStack() as stack:
        primary = Server(folder)
        stack.callback(primary.stop, "immediate")
        primary.make_cluster()
        primary.start()
        standby = stack.enter_context(trailing(primary))
        acknowledged: dict[int, float] = {}
        writer = Thread(target=write_until_it_fails, args=[primary, acknowledged])
        writer.start()
        eventually(lambda: len(acknowledged) > 20, what="some commits are acknowledged")
        straggler = Straggler(primary, standby)

        straggler.fall_behind(0.5)
        primary.stop("killed")
        writer.join()
        kept_until = straggler.promote()

        with closing(standby.connect(dbname="postgres")) as connection:
            kept = {number for (number,) in connection.execute("SELECT number FROM written")}
        assert {number for number, at in acknowledged.items() if at < kept_until} <= kept
        assert kept == set(range(len(kept)))
        lost = acknowledged.keys() - kept
        assert len(lost) > 20


def write_until_it_fails(server: Server, acknowledged: dict[int, float]) -> None:
    """Commit numbers one after another, and note the time of each acknowledgement."""
    with closing(server.connect(dbname="postgres")) as connection:
        connection.execute("CREATE TABLE written (number int)")
        with suppress(psycopg.Error):
            for number in count():
                connection.execute("INSERT INTO written VALUES (%s)", [number])
                acknowledged[number] = now()


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
