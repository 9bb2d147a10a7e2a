"""`pgqueue_backfill` and `pgqueue_deadletters`, from the source of the rows to the messages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from pgqueue.connections import connect
from pgqueue.models import Backfill, Message, Staged
from pgqueue.spark import InvalidSource
from pgqueue.spark.backfill import load
from pgqueue.states import State
from tests.eventually import eventually
from tests.factories import Connection, bury
from tests.processes import ROOT, database_url

if TYPE_CHECKING:
    pass

ADD = "tests.jobs.add"


def sums() -> list[tuple[int, int]]:
    """Return the arguments of all messages, in their order."""
    found = Message.objects.order_by("pk").values_list("payload", flat=True)
    return [(payload["kwargs"]["a"], payload["kwargs"]["b"]) for payload in found]


@pytest.mark.parametrize(
    ("source", "table", "said"),
    [
        ("/srv/rows", None, "Put the format before another path: parquet:/srv/rows"),
        ("rows.xlsx", None, "neither a query, nor jdbc:…"),
        ("jdbc:postgresql://db/x", None, "needs a table"),
        ("rows.csv", "t", "Only a source jdbc:… takes a table"),
    ],
)
def test_what_is_no_source_is_refused(source: str, table: str | None, said: str) -> None:
    nothing: Any = None
    with pytest.raises(InvalidSource, match=said):
        load(nothing, source, url="", table=table)


@pytest.mark.spark
@pytest.mark.usefixtures("spark", "connection")
class TestABackfill:
    @pytest.mark.parametrize("form", ["csv", "parquet", "json"])
    def test_of_files_is_done_once(
        self, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / f"rows.{form}"
        rows = pandas.DataFrame({"a": range(50), "b": range(50, 100)})
        {
            "csv": lambda: rows.to_csv(file, index=False),
            "parquet": lambda: rows.to_parquet(file),
            "json": lambda: rows.to_json(file, orient="records", lines=True),
        }[form]()

        for _ in range(2):
            call_command("pgqueue_backfill", ADD, f"--from={file}", "--batch=7")

        assert sums() == [(n, n + 50) for n in range(50)]
        out = capsys.readouterr().out
        assert "50 of 50 rows are done" in out
        assert "50 rows were done at" in out
        assert not Staged.objects.exists()

    def test_of_a_query_knows_the_tables_of_the_queue(self, connection: Connection) -> None:
        letters = bury(connection, 3)
        query = "SELECT id AS a, 1 AS b FROM deadletters ORDER BY id"

        call_command("pgqueue_backfill", ADD, f"--from={query}", "--name=again")

        ready = Message.objects.filter(state=State.READY).order_by("pk")
        assert [each.payload["kwargs"]["a"] for each in ready] == letters
        assert Backfill.objects.get().name == "again"

    def test_prints_json_alone(self, capfd: pytest.CaptureFixture[str]) -> None:
        words = ("pgqueue_backfill", ADD, "--from=SELECT 41 AS a, 1 AS b", "--format=json")

        call_command(*words, "--dry-run")
        shown = json.loads(capfd.readouterr().out)
        call_command(*words, "--name=one")
        done = json.loads(capfd.readouterr().out)

        assert shown == {"dry_run": True, "task": ADD, "total": 1}
        assert done == {"dry_run": False, "name": "one", "total": 1, "done": 1, "skipped": 0}

    def test_shows_what_it_would_do(self, capfd: pytest.CaptureFixture[str]) -> None:
        call_command("pgqueue_backfill", ADD, "--from=SELECT 41 AS a, 1 AS b", "--dry-run")

        out = capfd.readouterr().out
        assert "1 rows, each a call of tests.jobs.add. Nothing was enqueued." in out
        assert "|41 |1  |" in out
        assert not Message.objects.exists()
        assert not Staged.objects.exists()

    @pytest.mark.parametrize(
        ("task", "source", "said"),
        [
            ("tests.jobs.ad", "SELECT 1 AS a", "No task is called 'tests.jobs.ad'"),
            (ADD, "SELECT 1 AS c", "doesn't fit: "),
            (ADD, "SELECT 1 AS a FROM nowhere", "nowhere"),
            (ADD, "rows.xlsx", "neither a query"),
        ],
    )
    def test_says_in_one_line_what_is_wrong(self, task: str, source: str, said: str) -> None:
        with pytest.raises(CommandError, match=said) as raised:
            call_command("pgqueue_backfill", task, f"--from={source}")

        assert "\n" not in str(raised.value)
        assert not Message.objects.exists()

    def test_that_is_killed_goes_on_and_enqueues_no_row_twice(self) -> None:
        command = [
            *(sys.executable, "manage.py", "pgqueue_backfill", ADD),
            "--from=SELECT id AS a, 0 AS b FROM range(2000)",
        ]
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.worker_settings",
            "DATABASE_URL": database_url(),
        }
        process = subprocess.Popen(
            [*command, "--rate=100"], cwd=ROOT, env=environment, start_new_session=True
        )
        try:
            eventually(lambda: Message.objects.count() >= 200, within=100)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
        before = Message.objects.count()

        subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=100)

        assert before < 2000
        assert [a for a, _ in sums()] == list(range(2000))


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
class TestDeadLetters:
    def test_are_replayed_as_a_query_says_and_shown_before(
        self, connection: Connection, capfd: pytest.CaptureFixture[str]
    ) -> None:
        letters = bury(connection, 5)
        query = f"--sql=SELECT id FROM deadletters WHERE id >= {letters[2]}"  # noqa: S608

        call_command("pgqueue_deadletters", query, "--replay", "--dry-run")
        assert Message.objects.filter(state=State.DEAD).count() == 5
        call_command("pgqueue_deadletters", query, "--replay")

        ready = Message.objects.filter(state=State.READY).order_by("pk")
        assert [each.pk for each in ready] == letters[2:]
        out = capfd.readouterr().out
        assert "3 rows would be replayed. Nothing was changed." in out
        assert "3 replayed." in out

    def test_are_shown_and_replayed_as_json_says_it(
        self, connection: Connection, capfd: pytest.CaptureFixture[str]
    ) -> None:
        letters = bury(connection, 2)
        words = ("pgqueue_deadletters", "--sql=SELECT id FROM deadletters ORDER BY id", "--replay")

        call_command(*words, "--dry-run", "--format=json")
        shown = json.loads(capfd.readouterr().out)
        with closing(connect("default", name="test")) as other, other.transaction():
            other.execute("SELECT FROM pgqueue_message WHERE id = %s FOR UPDATE", letters[:1])
            with pytest.raises(SystemExit) as ended:
                call_command(*words, "--format=json")
        done = json.loads(capfd.readouterr().out)

        sample = [{"id": id} for id in letters]
        assert shown == {"verb": "replay", "dry_run": True, "found": 2, "sample": sample}
        assert ended.value.code == 1
        counts = {"found": 2, "done": 1, "asked": 0, "unchanged": 0, "busy": 1}
        assert done == {
            "verb": "replay",
            "dry_run": False,
            "stopped": False,
            **counts,
            "busy_ids": letters[:1],
        }

    def test_are_discarded(self, connection: Connection) -> None:
        bury(connection, 3)

        call_command("pgqueue_deadletters", "--sql=SELECT id FROM deadletters", "--discard")

        assert not Message.objects.exists()

    def test_are_saved(self, connection: Connection, tmp_path: Path) -> None:
        letters = bury(connection, 3)
        folder = tmp_path / "letters"

        call_command(
            "pgqueue_deadletters", "--sql=SELECT id, task FROM deadletters", f"--to={folder}"
        )

        saved = pandas.concat(map(pandas.read_parquet, folder.glob("*.parquet")))
        assert sorted(saved["id"]) == letters
        with pytest.raises(CommandError, match=r"(?i)already exists"):
            call_command("pgqueue_deadletters", "--sql=SELECT 1 AS id", f"--to={folder}")

    @pytest.mark.parametrize(
        ("query", "said"),
        [("SELECT task FROM deadletters", "must return a column id"), ("SELEC", "(?i)syntax")],
    )
    def test_a_query_that_can_t_be_is_one_line(
        self, connection: Connection, query: str, said: str
    ) -> None:
        with pytest.raises(CommandError, match=said) as raised:
            call_command("pgqueue_deadletters", f"--sql={query}", "--discard")

        assert "\n" not in str(raised.value)
