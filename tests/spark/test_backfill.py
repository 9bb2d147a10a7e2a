"""`pgqueue_backfill` and `pgqueue_deadletters`, from the source of the rows to the messages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from pgqueue import task
from pgqueue.database.connections import connect
from pgqueue.models import Backfill, Message, Staged
from pgqueue.spark import InvalidSource
from pgqueue.spark.backfill import load
from pgqueue.states import State
from pgqueue.tasks import Task
from tests import jobs
from tests.eventually import eventually
from tests.factories import Connection, bury
from tests.processes import ROOT, environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADD = jobs.add.name
MAIL = "tests.spark.test_backfill.mail"
CALL = "tests.spark.test_backfill.call"


@dataclass(frozen=True)
class Order:
    """A value that a column of a file may have."""

    number: int
    price: Decimal


@task
def mail(
    name: str,
    zip: str,
    copies: int = 1,
    note: str | None = None,
    price: Decimal | None = None,
    sent: bool = False,
    tags: list[str] | None = None,
    plain=None,  # type: ignore[no-untyped-def]
) -> None:
    """A task with hints."""


@task
def call(order: Order, on: date, at: datetime, prices: dict[str, Decimal]) -> None:
    """A task with hints for what nests."""


def calls(task: Task[..., Any]) -> list[dict[str, Any]]:
    """Return the arguments of all messages, in their order, as the task gets them."""
    found = Message.objects.order_by("pk").values_list("payload", flat=True)
    return [task.codec.decode(json.dumps(payload))[1] for payload in found]


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
def test_a_source_with_a_variant_is_refused(spark: SparkSession) -> None:
    source = "SELECT 1 AS id, named_struct('of', parse_json('[1]')) AS data"

    with pytest.raises(InvalidSource, match=r"'data' is struct<of:variant>.* Select to_json\(\)"):
        load(spark, source, url="")


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

    def test_of_csv_takes_texts_as_they_are_and_else_what_the_hint_says(
        self, tmp_path: Path
    ) -> None:
        file = tmp_path / "rows.csv"
        file.write_bytes(
            b"\xef\xbb\xbfname,zip,copies,note,price,sent,tags,plain\r\n"
            b'"Ann ""The Boss"" Lee",01234,007,"one\ntwo",1.10,True,"[""a"", ""b""]",5\r\n'
            b'" x ","a,b",,,,,,\r\n'
            b',"",2,"",12345678901234567890.123,f,,""\r\n'
        )

        call_command("pgqueue_backfill", MAIL, f"--from={file}")

        assert calls(mail) == [
            {
                "name": 'Ann "The Boss" Lee',
                "zip": "01234",
                "copies": 7,
                "note": "one\ntwo",
                "price": Decimal("1.10"),
                "sent": True,
                "tags": ["a", "b"],
                "plain": "5",
            },
            {"name": " x ", "zip": "a,b", "note": None, "price": None, "tags": None, "plain": None},
            {
                "name": "",
                "zip": "",
                "copies": 2,
                "note": "",
                "price": Decimal("12345678901234567890.123"),
                "sent": False,
                "tags": None,
                "plain": "",
            },
        ]

    def test_of_csv_takes_another_separator_encoding_and_null(self, tmp_path: Path) -> None:
        file = tmp_path / "rows.csv"
        file.write_bytes("name;zip;note\nJürgen €;01234;NULL\n".encode("cp1252"))
        words = ("pgqueue_backfill", MAIL, f"--from={file}")

        with pytest.raises(CommandError, match="is not in UTF-8, or has"):
            call_command(*words, "--separator=;")
        call_command(*words, "--separator=;", "--encoding=windows-1252", "--null=NULL")

        assert calls(mail) == [{"name": "Jürgen €", "zip": "01234", "note": None}]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("name,zip\nAnn\n", r"(?i)malformed.*Ann"),
            ("name,zip\nAnn,1,2\n", r"(?i)malformed.*Ann"),
            ('name,zip\n"Ann,1\nBob,2\n', r"(?i)malformed.*Ann"),
            ("name,zip,copies\nAnn,1,two\n", r"argument 'copies' .*'two': it is no int.*Ann"),
            ("name,zip,sent\nAnn,1,maybe\n", r"argument 'sent' .*'maybe': it is no bool"),
            ("name,zip,tags\nAnn,1,a b\n", r"argument 'tags' .*'a b': it is no list"),
        ],
    )
    def test_of_a_damaged_csv_file_enqueues_nothing(
        self, text: str, said: str, tmp_path: Path
    ) -> None:
        file = tmp_path / "rows.csv"
        file.write_text(text)

        with pytest.raises(CommandError, match=said) as raised:
            call_command("pgqueue_backfill", MAIL, f"--from={file}")

        assert "\n" not in str(raised.value)
        assert not Message.objects.exists()

    def test_of_csv_files_with_different_headers_enqueues_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "1.csv").write_text("name,zip\nAnn,1\n")
        (tmp_path / "2.csv").write_text("zip,name\n1,Ann\n")

        with pytest.raises(CommandError, match="(?i)header does not conform"):
            call_command("pgqueue_backfill", MAIL, f"--from=csv:{tmp_path}")

        assert not Message.objects.exists()

    def test_of_folders_takes_their_names_as_texts(self, tmp_path: Path) -> None:
        folder = tmp_path / "zip=01234" / "copies=2"
        folder.mkdir(parents=True)
        pandas.DataFrame({"name": ["Ann"]}).to_parquet(folder / "x.parquet")

        call_command("pgqueue_backfill", MAIL, f"--from=parquet:{tmp_path}")

        assert calls(mail) == [{"name": "Ann", "zip": "01234", "copies": 2}]

    def test_of_json_lines_takes_each_as_it_is(self, tmp_path: Path) -> None:
        file = tmp_path / "rows.json"
        file.write_text(
            '{"name": "Ann", "zip": "01234", "price": 12345678901234567890.123}\n\n'
            '{"name": "Bob", "zip": "2", "copies": 3, "plain": {"x": 1}}\n'
            '{"name": "Eve", "zip": "2", "plain": {"y": [1.5, "a"]}}\n'
        )

        call_command("pgqueue_backfill", MAIL, f"--from={file}")

        assert calls(mail) == [
            {"name": "Ann", "zip": "01234", "price": Decimal("12345678901234567890.123")},
            {"name": "Bob", "zip": "2", "copies": 3, "plain": {"x": 1}},
            {"name": "Eve", "zip": "2", "plain": {"y": [1.5, "a"]}},
        ]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (b'[\n{"name": "Ann"}]', "is not a JSON object"),
            (b'{"name": "Ann", "zip": }', "(?i)json"),
            (b'{"name": "J\xfcrgen", "zip": "1"}', "A line is not in UTF-8.*rgen"),
            (b'{"name": "Ann", "zip": "1", "zap": "1"}', "'zap'"),
        ],
    )
    def test_of_damaged_json_lines_enqueues_nothing(
        self, text: bytes, said: str, tmp_path: Path
    ) -> None:
        file = tmp_path / "rows.json"
        file.write_bytes(text)

        with pytest.raises(CommandError, match=said):
            call_command("pgqueue_backfill", MAIL, f"--from={file}")

        assert not Message.objects.exists()

    def test_of_parquet_keeps_decimals_dates_and_what_nests(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        exact = "cast('12345678901234567890.123' AS decimal(38, 3))"
        spark.sql(f"""
            SELECT named_struct('number', 1L, 'price', {exact}) AS order,
                   date '1969-02-28' AS on, timestamp '2026-01-02 03:04:05.000006Z' AS at,
                   map('a', {exact}, 'b', NULL) AS prices
        """).write.parquet(str(tmp_path / "rows"))

        call_command("pgqueue_backfill", CALL, f"--from=parquet:{tmp_path}/rows")

        price = Decimal("12345678901234567890.123")
        assert calls(call) == [
            {
                "order": Order(1, price),
                "on": date(1969, 2, 28),
                "at": datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
                "prices": {"a": price, "b": None},
            }
        ]

    def test_of_parquet_files_takes_the_columns_of_each(self, tmp_path: Path) -> None:
        pandas.DataFrame({"name": ["Ann"], "zip": ["1"]}).to_parquet(tmp_path / "1.parquet")
        pandas.DataFrame({"name": ["Bob"], "zip": ["2"], "note": ["x"]}).to_parquet(
            tmp_path / "2.parquet"
        )

        call_command("pgqueue_backfill", MAIL, f"--from=parquet:{tmp_path}")

        found = {each["name"]: each["note"] for each in calls(mail)}
        assert found == {"Ann": None, "Bob": "x"}

    def test_of_a_query_knows_the_tables_of_the_queue(self, connection: Connection) -> None:
        letters = bury(connection, 3)
        query = "SELECT id AS a, 1 AS b FROM Deadletters ORDER BY id"

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

        first = [{"call": f"{ADD}(a=41, b=1)"}]
        assert shown == {"dry_run": True, "task": ADD, "total": 1, "first": first}
        assert done == {"dry_run": False, "name": "one", "total": 1, "done": 1, "skipped": 0}

    def test_shows_the_first_calls_as_they_would_be(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "rows.csv"
        file.write_text("name,zip,copies\n" + 'Ann,01234,1\n"a\nb",1,two\n' + "x,1,1\n" * 20)

        call_command("pgqueue_backfill", MAIL, f"--from={file}", "--dry-run")

        lines = capfd.readouterr().out.splitlines()
        assert lines[0] == f"{MAIL}(name='Ann', zip='01234', copies=1)"
        assert "'two': it is no int" in lines[1]
        assert lines[10] == f"22 rows, each a call of {MAIL}. Nothing was enqueued."
        assert not Message.objects.exists()
        assert not Staged.objects.exists()

    @pytest.mark.parametrize(
        ("task", "source", "said"),
        [
            ("tests.jobs.ad", "SELECT 1 AS a", r"Did you mean 'tests\.jobs\.add'"),
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
        process = subprocess.Popen(
            [*command, "--rate=100"], cwd=ROOT, env=environment(), start_new_session=True
        )
        try:
            eventually(lambda: Message.objects.count() >= 200, within=100)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
        before = Message.objects.count()

        subprocess.run(command, cwd=ROOT, env=environment(), check=True, timeout=100)

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
