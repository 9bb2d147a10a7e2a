"""Two versions at once: here this checkout's last commit, beside the checkout itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proof.checker.account import account_of
from tests.proof.checker.rules import check
from tests.proof.versions import check_out, migrations, mix
from tests.starting import ROOT


def test_a_version_without_durable_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has no durable tasks: name a version that has"):
        check_out("HEAD:pgqueue", tmp_path)


def test_the_migrations_of_a_checkout() -> None:
    assert {"0001_initial", "0017_breakers"} <= migrations(ROOT)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_two_versions_share_a_queue(tmp_path: Path) -> None:
    logs = tmp_path / "history"
    logs.mkdir()

    ran, _ = mix("HEAD", logs, tmp_path, lasts=15)

    account = account_of(logs)
    assert not ran.complaint
    assert not any(check(account).values())
    assert {each.do for each in account.operations if each.end == "ok"} >= {"enqueue", "run"}
