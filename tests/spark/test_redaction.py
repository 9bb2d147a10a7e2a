"""What is read for others, and what an export writes, has nothing that is redacted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas
import pyarrow
import pytest
from django.core.management import call_command

from pgqueue import redaction
from pgqueue.arrow.redacting import redacted
from pgqueue.arrow.tables import TABLES as TABLES_READ
from pgqueue.models import Event, History, Message
from pgqueue.redaction import MASK, Redaction
from pgqueue.spark import InvalidOption
from pgqueue.spark.export import export
from pgqueue.tasks import redacting
from tests.cards import CARD, SECRETS, TOKEN, charge, leave_traces
from tests.spark.conftest import Read, wait_for_horizon

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IBAN = "DE0012345678"
TABLES = ("messages", "history", "deadletters", "attempts", "events")


@pytest.fixture
def ids(url: str) -> dict[str, int]:
    """The ids of messages with secrets, by what they are; their history may be followed."""
    made = leave_traces()
    Message.objects.filter(pk=made["raw"]).update(body=TOKEN.encode())
    return made


def secrets_in(found: Any) -> list[str]:
    return [each for each in SECRETS if each in str(found)]


def parquet(folder: Path, table: str) -> pandas.DataFrame:
    files = sorted(folder.glob(f"{table}/**/*.parquet"))
    return pandas.concat([pandas.read_parquet(path) for path in files], ignore_index=True)


@pytest.mark.parametrize("table", TABLES)
def test_what_is_read_redacted_has_no_secret_and_all_else(
    read: Read, ids: dict[str, int], table: str
) -> None:
    option = redacting.everything("default").to_json()

    plain, redacted = read(table).to_pylist(), read(table, redact=option).to_pylist()

    assert not secrets_in(redacted)
    assert len(redacted) == len(plain) > 0
    assert redacted[0].keys() == plain[0].keys()
    if table != "attempts":  # its errors were stored without secrets
        assert secrets_in(plain)
        assert MASK in str(redacted)
    untouched = ("id", "position", "message_id", "task", "created_at", "state", "outcome")
    for name in untouched:
        assert [row.get(name) for row in redacted] == [row.get(name) for row in plain]


def test_arguments_are_redacted_by_what_their_tasks_say_though_the_task_is_not_read(
    read: Read, ids: dict[str, int]
) -> None:
    option = redacting.everything("default").to_json()

    table = read("history", redact=option, columns="result, payload", task=charge.name)

    [row] = table.to_pylist()
    assert table.column_names == ["result", "payload"]
    assert json.loads(row["payload"])["args"] == [7, MASK, {"name": "Ada", "email": MASK}]
    assert json.loads(row["result"])["said"] == f"charged {MASK}"


def test_a_body_is_left_out(read: Read, ids: dict[str, int]) -> None:
    chosen = {"columns": "id, body", "channel": "mail"}

    assert read("messages", **chosen)["body"].to_pylist() == [TOKEN.encode()]
    assert read("messages", redact="true", **chosen)["body"].to_pylist() == [None]


def test_fields_may_be_given_as_a_list(read: Read, ids: dict[str, int]) -> None:
    [row] = read("events", redact='["name"]', topic="user.made").to_pylist()

    payload = json.loads(row["payload"])
    assert (payload["name"], payload["password"]) == (MASK, TOKEN)


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("attempts", "message_id, error_message, traceback"),
        ("deadletters", "id, error_message"),
        ("deadletters", "id, errors"),
    ],
)
def test_an_error_that_quotes_an_argument_is_redacted_whichever_columns_are_read(
    read: Read, ids: dict[str, int], table: str, columns: str
) -> None:
    dead = Message.objects.filter(state="dead").exclude(errors=[]).order_by("id")[0]
    dead.payload = {"args": [], "kwargs": {"iban": IBAN}}
    for each in ("message", "traceback"):
        dead.errors[-1][each] = f"{IBAN} is refused"
    dead.save(update_fields=["payload", "errors"])

    plain = read(table, columns=columns)
    hidden = read(table, columns=columns, redact='["iban"]')

    assert hidden.column_names == plain.column_names == columns.split(", ")
    assert IBAN in str(plain.to_pylist())
    assert IBAN not in str(hidden.to_pylist())


def test_a_capital_i_of_turkish_is_an_i_also_for_arrow() -> None:
    payload = ['{"CREDİT_CARD": "4242"}', '{"pIn": 1}', '{"points": 2}']
    batch = pyarrow.RecordBatch.from_pydict({"payload": payload})

    shown = redacted(batch, Redaction(), [TABLES_READ["messages"].column("payload")])

    assert shown["payload"].to_pylist() == [
        f'{{"CREDİT_CARD": "{MASK}"}}',
        f'{{"pIn": "{MASK}"}}',
        payload[2],
    ]


def test_nothing_is_redacted_of_fields_that_are_none(read: Read, ids: dict[str, int]) -> None:
    assert read("events", redact="[]") == read("events", redact="false") == read("events")


@pytest.mark.parametrize("given", ["yes", "7", "{}", "[1]", '{"fields": 1, "tasks": {}}', "["])
def test_any_other_option_is_refused(read: Read, given: str) -> None:
    with pytest.raises(InvalidOption, match="redact"):
        read("events", redact=given)


def test_all_that_a_project_redacts_comes_back_from_its_text(url: str) -> None:
    found = redacting.everything("default")

    assert Redaction.from_json(found.to_json()).rules(charge.name) == found.rules(charge.name)
    assert found.rules(charge.name) == redacting.rules(charge.name)
    assert found.rules("no.such.task") == redacting.rules("")
    assert found.fields == redaction.FIELDS


def test_messages_under_an_earlier_name_of_a_task_are_redacted_though_none_has_ended(
    read: Read, url: str
) -> None:
    charge.enqueue(1, CARD)
    Message.objects.update(task=charge.aliases[0])

    option = redacting.everything("default").to_json()

    [row] = read("messages", redact=option).to_pylist()
    assert row["task"] == charge.aliases[0]
    assert not secrets_in(row)


def test_an_export_writes_no_secret_unless_it_is_asked_to(
    spark: SparkSession, url: str, ids: dict[str, int], tmp_path: Path
) -> None:
    wait_for_horizon(url)

    call_command("pgqueue_export", f"--to={tmp_path / 'redacted'}", verbosity=0)
    export(spark, url=url, to=str(tmp_path / "by_names"))
    call_command("pgqueue_export", f"--to={tmp_path / 'plain'}", "--unredacted", verbosity=0)

    for table, rows in (("history", History), ("events", Event), ("deadletters", None)):
        redacted, plain = (parquet(tmp_path / each, table) for each in ("redacted", "plain"))
        assert len(redacted) == len(plain) == (4 if rows is None else rows.objects.count())
        assert not secrets_in(redacted.to_json())
        assert secrets_in(plain.to_json())
    # Without the project, there are no tasks.
    assert TOKEN not in parquet(tmp_path / "by_names", "events").to_json()
    assert CARD in parquet(tmp_path / "by_names", "deadletters").to_json()


def test_dead_letters_are_saved_and_shown_without_secrets(
    spark: SparkSession, url: str, ids: dict[str, int], tmp_path: Path, capsys: Any
) -> None:
    query = "--sql=SELECT id, task, payload, errors FROM deadletters"

    call_command("pgqueue_deadletters", query, f"--to={tmp_path / 'redacted'}")
    call_command("pgqueue_deadletters", query, f"--to={tmp_path / 'plain'}", "--unredacted")
    call_command("pgqueue_deadletters", query)

    redacted, plain = (pandas.read_parquet(tmp_path / each) for each in ("redacted", "plain"))
    assert sorted(redacted["id"]) == sorted(plain["id"])
    assert not secrets_in(redacted.to_json())
    assert secrets_in(plain.to_json())
    assert not secrets_in(capsys.readouterr().out)
