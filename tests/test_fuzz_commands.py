"""Arguments of commands that can be anything: each is refused, or does what it says."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from hypothesis import example, given
from hypothesis import strategies as st

from pgqueue import Channel, models
from pgqueue.management.commands import pgqueue_backfill as backfill
from pgqueue.management.commands import pgqueue_deadletters as deadletters
from pgqueue.management.commands import pgqueue_export as export
from pgqueue.management.commands import pgqueue_report as report
from pgqueue.management.commands.runworker import Command
from pgqueue.models import Policy
from pgqueue.values import names
from pgqueue.worker.config import WorkerConfig
from tests.anything import EXAMPLES, NUMBERS, TEXTS, attempt

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

WORDS = st.one_of(TEXTS, NUMBERS.map(str))
COUNTS = ["1", "2147483647"]
SECONDS = ["0.5", "60", "3e9"]
CHANNELS = ["mail", "x" * 200, "é"]


def column(name: str) -> Callable[[str], bool]:
    """Return a check that a policy has a value in this column."""

    def check(value: str) -> bool:
        stored = getattr(Policy.objects.get(), name)
        return str(stored) == value or float(stored) == float(value)

    return check


def kept(name: str) -> Callable[[str], bool]:
    """Return a check that a channel has a duration in this column."""

    def check(value: str) -> bool:
        stored = getattr(models.Channel.objects.get(), name)
        return bool(stored == timedelta(seconds=float(value)))

    return check


def is_meant(given: Any, value: str) -> bool:
    """Return whether an argument is what a text says, to the microsecond."""
    if isinstance(given, str):
        return given == value
    if isinstance(given, int):
        return given == int(value)
    return math.isclose(given, float(value), abs_tol=1e-6)


Check = Callable[[str], bool]
POLICY: Mapping[str, tuple[list[str], list[str], Check]] = {
    "--max-running": ([], COUNTS, column("max_running")),
    "--rate": ([], ["0.001", "1", "1e6"], column("rate")),
    "--burst": (["--rate=1"], ["1", "1000"], column("burst")),
    "--max-size": ([], COUNTS, column("max_size")),
    "--weight": (["--each-key"], ["1", "100"], column("weight")),
    "--per": (
        ["--rate=1"],
        ["0.001", "60"],
        lambda value: Policy.objects.get().per == timedelta(seconds=float(value)),
    ),
    "--key": (["--max-running=1"], ["a", "é"], lambda value: Policy.objects.get().key == value),
}
RETENTION: Mapping[str, tuple[list[str], list[str], Check]] = {
    "--history": ([], SECONDS, kept("retention")),
    "--succeeded": ([], SECONDS, kept("retention_succeeded")),
    "--dead": ([], SECONDS, kept("dead_retention")),
}
OPTIONS = {
    **{("policy", option): said for option, said in POLICY.items()},
    **{("retention", option): said for option, said in RETENTION.items()},
}


def call(*words: str) -> None:
    """Run a command; a status that it ends with is no error."""
    try:
        call_command(*words, verbosity=0)
    except SystemExit as error:
        if error.code not in (0, 1, 2):
            raise


class TestTheCommandForChannels:
    @pytest.mark.parametrize(
        ("verb", "option", "value"),
        [(*name, value) for name, (_, values, _) in OPTIONS.items() for value in values],
    )
    def test_accepts_and_stores_an_option(self, verb: str, option: str, value: str) -> None:
        rest, _, check = OPTIONS[verb, option]

        call("pgqueue_channel", verb, "mail", *rest, f"{option}={value}")

        assert check(value)

    @pytest.mark.parametrize(("verb", "option"), OPTIONS)
    @EXAMPLES
    @given(value=WORDS)
    @example(value="nan")
    @pytest.mark.nightly
    def test_refuses_an_option_or_stores_it(self, verb: str, option: str, value: str) -> None:
        rest, _, check = OPTIONS[verb, option]

        def run() -> None:
            call("pgqueue_channel", verb, "mail", *rest, f"{option}={value}")
            assert check(value)

        attempt(run, CommandError)

    @pytest.mark.parametrize(
        ("verb", "option", "name", "values"),
        [
            ("trim", "--older-than", "older_than", ["0", *SECONDS]),
            ("trim", "--keep", "keep", ["0", *COUNTS]),
        ],
    )
    @EXAMPLES
    @given(data=st.data())
    @pytest.mark.nightly
    def test_refuses_what_to_choose_or_passes_it_on(
        self, verb: str, option: str, name: str, values: list[str], data: st.DataObject
    ) -> None:
        value = data.draw(st.one_of(WORDS, st.sampled_from(values)))
        real = getattr(Channel, verb)

        def run() -> None:
            with patch.object(Channel, verb, autospec=True, side_effect=real) as called:
                call("pgqueue_channel", verb, "mail", f"{option}={value}")
            [said] = called.call_args_list
            given = said.kwargs[name] if name else said.args[1]
            assert is_meant(given, value)

        assert attempt(run, CommandError) or value not in values

    @pytest.mark.parametrize("verb", ["show", "pause", "resume", "purge", "trim --keep=1"])
    @EXAMPLES
    @given(name=TEXTS)
    @pytest.mark.nightly
    def test_refuses_a_name_or_knows_the_channel(self, verb: str, name: str) -> None:
        attempt(lambda: call("pgqueue_channel", *verb.split(), name), CommandError)

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("verb", ["drain", "release"])
    @EXAMPLES
    @given(value=WORDS)
    @example(value="nan")
    @example(value="0")
    @pytest.mark.nightly
    def test_refuses_a_timeout_or_obeys_it(self, verb: str, value: str) -> None:
        try:
            call("pgqueue_channel", verb, "mail", f"--timeout={value}")
        except CommandError:
            assert value not in ("0", "1.5")


FILTERS = {
    "--channel": CHANNELS,
    "--key": ["", "a", "é"],
    "--task": ["tests.jobs.add"],
    "--error": ["ForkliftStuck", "shop.tasks.ForkliftStuck"],
    "--older-than": ["0", *SECONDS[:2], "31536000"],
    "--flow": ["1", str(2**63 - 1)],
    "--state": ["ready", "held"],
    "--match": ["args.a=7", "meta.b.c=d", "tag=import", "error=no"],
}


@pytest.mark.parametrize(
    "command", ["pgqueue_cancel", "pgqueue_replay", "pgqueue_discard", "pgqueue_release"]
)
@pytest.mark.parametrize("option", [*FILTERS, "ID"])
@EXAMPLES
@given(data=st.data())
@example(data="\ud800")
@example(data="%s")
@example(data="9" * 30)
@pytest.mark.nightly
def test_the_commands_for_messages_refuse_what_to_choose_or_find_it(
    command: str, option: str, data: st.DataObject | str
) -> None:
    good = {**FILTERS, "ID": ["1", str(2**63 - 1)]}[option]
    value = data if isinstance(data, str) else data.draw(st.one_of(WORDS, st.sampled_from(good)))
    word = value if option == "ID" else f"{option}={value}"
    is_known = option != "--state" or command == "pgqueue_cancel"

    def run() -> None:
        for more in (["--dry-run"], []):
            call(command, *more, "--format=json", "--", word) if option == "ID" else call(
                command, *more, word
            )

    assert attempt(run, CommandError) or value not in good or not is_known


LIST = {**FILTERS, "--state": ["ready", "succeeded", "ended"], "--limit": ["1", "10000"],
        "--start": ["0:", "0:[5]"]}  # fmt: skip


@pytest.mark.parametrize("option", LIST)
@EXAMPLES
@given(data=st.data())
@example(data="0:[1e400]")
@example(data='0:["\\u0000"]')
@example(data="0:{}")
@pytest.mark.nightly
def test_the_command_for_lists_refuses_an_option_or_obeys_it(
    option: str, data: st.DataObject | str
) -> None:
    good = LIST[option]
    value = data if isinstance(data, str) else data.draw(st.one_of(WORDS, st.sampled_from(good)))

    def run() -> None:
        call("pgqueue_list", f"{option}={value}")

    assert attempt(run, CommandError) or value not in good


FLOWS = {"--state": ["living", "ended", "stopped"], "--limit": ["1", "1000"]}


@pytest.mark.parametrize("option", FLOWS)
@EXAMPLES
@given(data=st.data())
@pytest.mark.nightly
def test_the_command_for_flows_refuses_an_option_or_obeys_it(
    option: str, data: st.DataObject
) -> None:
    good = FLOWS[option]
    value = data.draw(st.one_of(WORDS, st.sampled_from(good)))

    assert (
        attempt(lambda: call("pgqueue_flows", f"{option}={value}"), CommandError)
        or value not in good
    )


@pytest.mark.parametrize("word", [[], ["--state=dead"], ["--state=ready"], ["--state=scheduled"]])
@EXAMPLES
@given(place=st.lists(st.one_of(TEXTS, NUMBERS), max_size=5).map(json.dumps))
@example(place='["\\ud800", "", 1]')
@example(place='["a", "\\u0000", 1]')
@example(place='["a", "b", 1e400]')
def test_the_command_for_lists_refuses_a_place_that_there_is_not(
    word: list[str], place: str
) -> None:
    attempt(lambda: call("pgqueue_list", *word, f"--start=0:{place}"), CommandError)


@EXAMPLES
@given(id=st.one_of(WORDS, st.sampled_from(["1", str(2**63 - 1)])))
def test_the_command_that_shows_a_message_refuses_an_id_that_there_is_not(id: str) -> None:
    assert not attempt(lambda: call("pgqueue_show", "--", id), CommandError)


ENQUEUE = {
    "--channel": (CHANNELS, lambda message, value: message.channel == value),
    "--key": (["", "a", "é"], lambda message, value: message.key == value),
    "--priority": (["-100", "0", "100"], lambda message, value: message.priority == int(value)),
    "--weight": (
        ["1", "100"],
        lambda message, value: (message.options or {}).get("weight", 1) == int(value),
    ),
    "--dedupe-key": (["a", "é"], lambda message, value: message.dedupe_key == value),
    "--run-after": (
        ["0", "60", "2126-01-01", "2126-01-01T00:00:00+02:00"],
        lambda message, value: message.run_at >= message.created_at or message.state == "ready",
    ),
    "--args": (["[]", "[1, null, {}]"], lambda message, value: message.payload is not None),
    "--kwargs": (["{}", '{"a": [1]}'], lambda message, value: message.payload is not None),
    "NAME=JSON": (
        ["a=1", 'a="b"', "é=null"],
        lambda message, value: value.partition("=")[0] in message.payload["kwargs"],
    ),
}


@pytest.mark.parametrize("option", ENQUEUE)
@EXAMPLES
@given(data=st.data())
@example(data="[NaN]")
@example(data="[" * 100_000)
@example(data='a="\\u0000"')
@example(data="1e400")
@example(data="0001-01-01T00:00+14:00")
@pytest.mark.nightly
def test_the_command_that_enqueues_refuses_an_option_or_obeys_it(
    option: str, data: st.DataObject | str
) -> None:
    good, is_it = ENQUEUE[option]
    value = data if isinstance(data, str) else data.draw(st.one_of(WORDS, st.sampled_from(good)))
    words = ["--", "tests.jobs.anything", value] if option == "NAME=JSON" else [
        "tests.jobs.anything", f"{option}={value}"
    ]  # fmt: skip

    def run() -> None:
        call("pgqueue_enqueue", *words)
        assert is_it(models.Message.objects.get(), value)

    assert attempt(run, CommandError) or value not in good


@pytest.mark.parametrize("option", ["--channel", "--window"])
@EXAMPLES
@given(value=st.one_of(WORDS, st.sampled_from(["hour", "mail"])))
@pytest.mark.nightly
def test_the_command_for_statistics_refuses_an_option_or_obeys_it(option: str, value: str) -> None:
    good = {"--channel": "mail", "--window": "hour"}[option]

    assert (
        attempt(lambda: call("pgqueue_stats", f"{option}={value}"), CommandError) or value != good
    )


@EXAMPLES
@given(prefix=TEXTS)
@example(prefix="{}")
@example(prefix="'; DROP TABLE pgqueue_message; --")
@example(prefix="pg_")
@pytest.mark.nightly
def test_the_command_for_roles_refuses_a_prefix_or_makes_names_of_it(prefix: str) -> None:
    def run() -> None:
        output = StringIO()
        call_command("pgqueue_roles", f"--prefix={prefix}", stdout=output)
        with connection.cursor() as cursor:
            cursor.execute(output.getvalue().replace("%", "%%"), ())
            cursor.execute("SELECT FROM pg_roles WHERE rolname = %s", [f"{prefix}reader"])
            assert cursor.fetchall()

    attempt(run, CommandError)


@EXAMPLES
@given(name=TEXTS)
@example(name="tests.jobs")
@example(name="os.system")
def test_the_command_that_enqueues_refuses_what_is_no_task(name: str) -> None:
    assert not attempt(lambda: call("pgqueue_enqueue", "--", name), CommandError)


@pytest.mark.parametrize("verb", ["pause", "resume", "run"])
@EXAMPLES
@given(name=TEXTS)
@example(name="\ud800")
def test_the_command_for_schedules_refuses_a_name_that_it_does_not_know(
    verb: str, name: str
) -> None:
    assert not attempt(lambda: call("pgqueue_schedule", verb, name), CommandError)


@pytest.mark.parametrize("verb", ["pause", "resume", "delete"])
@EXAMPLES
@given(name=TEXTS)
@example(name="\ud800")
def test_the_command_for_subscriptions_refuses_a_name_that_it_does_not_know(
    verb: str, name: str
) -> None:
    assert not attempt(lambda: call("pgqueue_subscription", verb, "--", name), CommandError)


STARTS = ["now", "beginning", "0", "2026-11-24T08:30:00Z", "2026-11-24"]


@EXAMPLES
@given(name=st.one_of(TEXTS, st.sampled_from(["billing", "é", "x" * 190])))
@example(name="\ud800")
@pytest.mark.nightly
def test_the_command_for_groups_refuses_a_name_or_makes_it(name: str) -> None:
    def run() -> None:
        call("pgqueue_group", "make", "--", name)
        assert models.Group.objects.get().name == name

    assert attempt(run, CommandError) or name not in ("billing", "é", "x" * 190)


@pytest.mark.parametrize("verb", ["run", "reset", "rebuild", "resume", "delete"])
@EXAMPLES
@given(name=TEXTS)
@example(name="\ud800")
def test_the_command_for_groups_refuses_a_name_that_it_does_not_know(verb: str, name: str) -> None:
    rest = ["now"] if verb == "reset" else []

    assert not attempt(lambda: call("pgqueue_group", verb, "--", name, *rest), CommandError)


@EXAMPLES
@given(value=st.one_of(WORDS, st.sampled_from(["1", "1024"])))
@pytest.mark.nightly
def test_the_command_for_groups_refuses_a_number_of_partitions_or_makes_them(value: str) -> None:
    def run() -> None:
        call("pgqueue_group", "make", "billing", f"--partitions={value}")
        assert models.Cursor.objects.count() == int(value)

    assert attempt(run, CommandError) or value not in ("1", "1024")


@pytest.mark.parametrize("verb", ["make", "reset"])
@EXAMPLES
@given(value=st.one_of(WORDS, st.sampled_from(STARTS)))
@example(value="9" * 19)
@example(value="0001-01-01T00:00+14:00")
@example(value="9999-12-31T23:59-14:00")
@pytest.mark.nightly
def test_the_command_for_groups_refuses_a_start_or_goes_there(verb: str, value: str) -> None:
    def run() -> None:
        if verb == "make":
            call("pgqueue_group", "make", "billing", f"--start={value}")
        else:
            call("pgqueue_group", "make", "billing")
            call("pgqueue_group", "reset", "billing", "--", value)
        assert models.Cursor.objects.get().position == 0

    assert attempt(run, CommandError) or value not in STARTS


LIMITS = {
    "--min-workers": ["0", "7"],
    "--max-dead": ["0", "7"],
    "--min-days": ["0", "7"],
    "--max-bloat": ["0", "7"],
    "--max-age": ["0", *SECONDS],
    "--max-late": ["0", *SECONDS],
    "--max-horizon": ["0", *SECONDS],
    "--max-connections": ["0", "0.5", "1"],
    "--max-export": ["0", *SECONDS],
    "--max-lag": ["0", *SECONDS],
    "--max-wal": ["0", "7"],
    "--max-failing": ["0", "7.5"],
    "--max-locked": ["0", "7.5"],
    "--max-busy": ["0", "7.5"],
    "--host": ["web-1"],
    "--check": ["workers"],
}


@pytest.mark.parametrize("option", LIMITS)
@EXAMPLES
@given(data=st.data())
@pytest.mark.nightly
def test_the_command_for_health_refuses_a_limit_or_applies_it(
    option: str, data: st.DataObject
) -> None:
    value = data.draw(st.one_of(WORDS, st.sampled_from(LIMITS[option])))
    name = option.removeprefix("--").replace("-", "_")

    def run() -> None:
        with patch("pgqueue.management.commands.pgqueue_health.examine", return_value=[]) as asked:
            call("pgqueue_health", f"{option}={value}")
        _, limits, checks = asked.call_args.args
        given = checks[0] if option == "--check" else getattr(limits, name)
        assert is_meant(given, value)

    assert attempt(run, CommandError) or value not in LIMITS[option]


@pytest.mark.parametrize(
    "words",
    [
        *(["pgqueue_maintain"], ["pgqueue_health"], ["pgqueue_channel", "list"]),
        *(["pgqueue_schedule", "list"], ["pgqueue_channel", "show", "mail"]),
        *(["pgqueue_group", "list"], ["pgqueue_group", "make", "billing"]),
        *(["pgqueue_subscription", "list"], ["pgqueue_subscription", "sync"]),
        *(["pgqueue_replication"], ["pgqueue_replication", "--status"]),
        *(["pgqueue_list"], ["pgqueue_show", "1"], ["pgqueue_cancel", "--all"]),
        *(["pgqueue_flows"], ["pgqueue_flows", "--state=stopped"]),
        *(["pgqueue_replay", "1"], ["pgqueue_enqueue", "tests.jobs.anything"]),
        *(["pgqueue_stats"], ["pgqueue_watch"], ["pgqueue_roles"]),
        *(["pgqueue_rerun", "1"], ["pgqueue_rerun", "--all"]),
    ],
    ids=" ".join,
)
@EXAMPLES
@given(value=TEXTS)
def test_every_command_refuses_a_database_that_there_is_not(words: list[str], value: str) -> None:
    if value not in ("", "default"):  # "": as PGQUEUE says
        assert not attempt(lambda: call(*words, f"--database={value}"), CommandError)


@EXAMPLES
@given(value=TEXTS)
def test_the_command_for_imports_refuses_a_source_that_there_is_not(value: str) -> None:
    assert not attempt(lambda: call("pgqueue_import", f"--from={value}"), CommandError)


@pytest.mark.parametrize("option", ["--table", "--source"])
@EXAMPLES
@given(value=TEXTS)
@example(value="\ud800")
@example(value="a.b")
def test_the_command_for_imports_refuses_what_is_no_inbox(option: str, value: str) -> None:
    words = ["--from=transactional-inbox", f"{option}={value}"]
    assert not attempt(lambda: call("pgqueue_import", *words), CommandError)


EXPORT = {
    "--to": ["lake", "/srv/lake/", "s3a://lake/queue"],
    "--forget": ["lake", "/srv/lake/", "s3a://lake/queue"],
    "--batch": COUNTS,
    "--conf": ["spark.master=local[4]", "spark.app.name="],
    "--tables-format": ["parquet", "ducklake", "delta", "iceberg"],
    "--catalog": ["env:CATALOG", "postgresql://localhost/catalog"],
    "--source": ["eu", "shop_2"],
    "--events": ["all", "shop.events.OrderPaid"],
    "--expire": SECONDS,
}


@pytest.mark.parametrize("option", EXPORT)
@EXAMPLES
@given(data=st.data())
@example(data="")
@example(data="a\x00b")
@example(data="\ud800")
@pytest.mark.nightly
def test_the_command_for_exports_refuses_an_option_or_obeys_it(
    option: str, data: st.DataObject | str
) -> None:
    good = EXPORT[option]
    value = data if isinstance(data, str) else data.draw(st.one_of(WORDS, st.sampled_from(good)))
    target = [] if option in ("--to", "--forget") else ["--to=/lake"]

    def run() -> None:
        parser = export.Command().create_parser("manage.py", "pgqueue_export")
        name = option.removeprefix("--").replace("-", "_")
        found = vars(parser.parse_args([*target, f"{option}={value}"]))[name]
        if option in ("--tables-format", "--catalog", "--source"):
            assert found == value
        elif option == "--expire":
            assert found == timedelta(seconds=float(value))
        elif option == "--batch":
            assert found == int(value)
        elif option == "--events":
            assert found == [value]
        elif option == "--conf":
            assert ["=".join(each) for each in found] == [value]
        else:
            assert found == names.as_folder(value)
            assert found.startswith("/") or "://" in value or ":/" in value

    assert attempt(run, CommandError) or value not in good


REPORT: Mapping[str, tuple[str, list[str], Callable[[Any, str], bool]]] = {
    "--from": (
        "folder",
        ["/lake", "s3a://lake/queue"],
        lambda found, value: found == names.as_folder(value),
    ),
    "--since": (
        "since",
        ["2026-11-24", "2026-11-24T08:30:00+02:00"],
        lambda found, value: is_aware(found),
    ),
    "--until": ("until", ["2026-11-24T08:30:00Z"], lambda found, value: is_aware(found)),
    "--objective": (
        "objective",
        ["mail=60", "=0.5:0.9", "a=b=1:0.5"],
        lambda found, value: value.startswith(f"{found[0][0]}=") and 0 < found[0][2] < 1,
    ),
    "--html": ("html", ["/tmp/report.html"], lambda found, value: found == Path(value)),
    "--tables": ("tables", ["/tmp/tables"], lambda found, value: found == Path(value)),
    "--format": ("format", ["text", "json"], lambda found, value: found == value),
    "--tables-format": (
        "tables_format",
        ["csv", "parquet"],
        lambda found, value: found == value,
    ),
    "--from-format": (
        "from_format",
        ["parquet", "ducklake", "delta", "iceberg"],
        lambda found, value: found == value,
    ),
    "--catalog": ("catalog", ["env:CATALOG"], lambda found, value: found == value),
    "--source": ("source", ["eu"], lambda found, value: found == value),
    "--database": ("database", ["default"], lambda found, value: found == value),
}


def is_aware(time: datetime) -> bool:
    """Return whether a time is one of UTC."""
    return time.utcoffset() == timedelta()


@pytest.mark.parametrize("option", REPORT)
@EXAMPLES
@given(data=st.data())
@pytest.mark.nightly
def test_the_command_for_reports_refuses_an_option_or_knows_what_it_says(
    option: str, data: st.DataObject
) -> None:
    name, good, is_it = REPORT[option]
    value = data.draw(st.one_of(WORDS, st.sampled_from(good)))

    def run() -> None:
        parser = report.Command().create_parser("manage.py", "pgqueue_report")
        assert is_it(vars(parser.parse_args([f"{option}={value}"]))[name], value)

    assert attempt(run, CommandError) or value not in good


BACKFILL: Mapping[str, tuple[str, list[str]]] = {
    "--from": ("source", ["SELECT 1 AS a", "rows.csv", "jdbc:postgresql://db/x"]),
    "--table": ("table", ["orders", "(SELECT 1) x"]),
    "--separator": ("separator", [";", r"\t", "||"]),
    "--encoding": ("encoding", ["UTF-8", "windows-1252"]),
    "--null": ("null", ["NULL", ""]),
    "--name": ("name", ["first", "é"]),
    "--rate": ("rate", ["0.1", "1000"]),
    "--batch": ("batch", COUNTS),
    "--sql": ("sql", ["SELECT id FROM deadletters"]),
}


@pytest.mark.parametrize("option", BACKFILL)
@EXAMPLES
@given(data=st.data())
@example(data="")
@example(data="a\x00b")
@example(data="nan")
@pytest.mark.nightly
def test_the_commands_for_backfills_and_dead_letters_refuse_an_option_or_know_what_it_says(
    option: str, data: st.DataObject | str
) -> None:
    name, good = BACKFILL[option]
    value = data if isinstance(data, str) else data.draw(st.one_of(WORDS, st.sampled_from(good)))
    rest = {"--from": ["t"], "--sql": []}.get(option, ["t", "--from=rows.csv"])

    def run() -> None:
        command = deadletters if option == "--sql" else backfill
        parser = command.Command().create_parser("manage.py", "x")
        found = vars(parser.parse_args([*rest, f"{option}={value}"]))[name]
        assert is_meant(found, value)
        assert found == found  # no nan
        assert found or value == ""  # as if it was not given

    assert attempt(run, CommandError) or value not in good


def configuration(*words: str) -> WorkerConfig:
    """Return how a worker that is started by these words is configured.

    Raises:
        CommandError: they are refused.
    """
    command = Command()
    parser = command.create_parser("manage.py", "runworker")
    return command._configuration(vars(parser.parse_args(words)))


WORKER: Mapping[str, tuple[list[str], Callable[[WorkerConfig], Any], Callable[[str], Any]]] = {
    "--threads": (["0", "1", "10000"], lambda config: config.threads, int),
    "--processes": (["1", "1000"], lambda config: config.processes, int),
    "--async": (["0", "1", "100000"], lambda config: config.coroutines, int),
    "--max-tasks": (COUNTS, lambda config: config.max_tasks, int),
    "--max-memory": (COUNTS, lambda config: config.max_memory, int),
    "--max-age": (
        SECONDS,
        lambda config: config.max_age,
        lambda value: timedelta(seconds=float(value)),
    ),
    "--max-busy": (
        SECONDS,
        lambda config: config.max_busy,
        lambda value: timedelta(seconds=float(value)),
    ),
    "--grace": (
        ["0", *SECONDS],
        lambda config: config.grace,
        lambda value: timedelta(seconds=float(value)),
    ),
    "--channel": (CHANNELS, lambda config: config.channels, lambda value: [value]),
    "--queue-name": (CHANNELS, lambda config: config.channels, lambda value: [value]),
    "--exclude": (CHANNELS, lambda config: config.excluded, lambda value: [value]),
    "--database": (["default"], lambda config: config.database, lambda value: value or "default"),
    "--liveness-file": (["/tmp/alive"], lambda config: config.liveness_file, Path),
    "--metrics-port": (["1", "65535"], lambda config: config.metrics_port, int),
}


@pytest.mark.parametrize("option", WORKER)
@EXAMPLES
@given(data=st.data())
@example(data="²")
@example(data="9" * 400)
@example(data="4e9")
@example(data="")
@example(data="a\x00b")
@pytest.mark.nightly
def test_runworker_refuses_an_option_or_is_configured_by_it(
    option: str, data: st.DataObject | str
) -> None:
    good, configured, meant = WORKER[option]
    value = data if isinstance(data, str) else data.draw(st.one_of(WORDS, st.sampled_from(good)))

    def run() -> None:
        assert configured(configuration(f"{option}={value}")) == meant(value)

    assert attempt(run, CommandError) or value not in good


ON_A_CLUSTER: Mapping[
    str, tuple[list[str], Callable[[WorkerConfig], Any], Callable[[str], Any]]
] = {
    "--workers": (["1", "1000"], lambda config: config.processes, int),
    "--max-idle": (
        SECONDS,
        lambda config: config.max_idle,
        lambda value: timedelta(seconds=float(value)),
    ),
    "--master": (["yarn", "sc://a"], lambda config: None, lambda value: None),
    "--conf": (["spark.a=b"], lambda config: None, lambda value: None),
}


@pytest.mark.parametrize("option", ON_A_CLUSTER)
@EXAMPLES
@given(data=st.data())
@example(data="")
@example(data="spark.")
@example(data="9" * 400)
@pytest.mark.nightly
def test_runworker_on_a_cluster_refuses_an_option_or_is_configured_by_it(
    option: str, data: st.DataObject | str
) -> None:
    good, configured, meant = ON_A_CLUSTER[option]
    value = data if isinstance(data, str) else data.draw(st.one_of(WORDS, st.sampled_from(good)))

    def run() -> None:
        config = configuration("--executor=spark", f"{option}={value}")
        assert configured(config) == meant(value)
        assert config.max_age == timedelta(hours=1)

    assert attempt(run, CommandError) or value not in good


@pytest.mark.parametrize(
    "words",
    [
        *(["--workers=2"], ["--master=yarn"], ["--conf=spark.a=b"], ["--max-idle=60"]),
        *(["--executor=spark", "--processes=2"], ["--executor=spark", "--reload"]),
        *(["--executor=spark", "--threads=0"], ["--executor=ray"]),
        *(["--metrics-address=::1"], ["--executor=spark", "--metrics-port=9100"]),
    ],
    ids=" ".join,
)
def test_runworker_refuses_options_that_do_not_go_together(words: list[str]) -> None:
    with pytest.raises(CommandError, match="--"):
        configuration(*words)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--workers", "0"), ("--workers", "1001"), ("--max-idle", "-1")),
        *(("--max-idle", "0"), ("--max-age", "0"), ("--max-age", "inf")),
        *(("--threads", "10001"), ("--processes", "0"), ("--processes", "1001")),
        *(("--async", "100001"), ("--max-tasks", "0"), ("--max-tasks", "2147483648")),
        *(("--grace", "-1"), ("--grace", "inf"), ("--channel", ""), ("--channel", "x" * 201)),
        *(("--exclude", "a\x00"), ("--liveness-file", ""), ("--liveness-file", "a\x00")),
        *(("--metrics-port", "0"), ("--metrics-port", "65536"), ("--metrics-address", "")),
    ],
)
def test_runworker_refuses_what_no_worker_can_do(option: str, value: str) -> None:
    with pytest.raises(CommandError, match=option):
        configuration(f"{option}={value}")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--max-age", "nan"), ("--max-age", "inf"), ("--max-dead", "-1")),
        *(("--max-connections", "nan"), ("--max-connections", "1.1"), ("--host", "\ud800")),
    ],
)
def test_the_command_for_health_refuses_what_is_no_limit(option: str, value: str) -> None:
    with pytest.raises(CommandError, match=option):
        call("pgqueue_health", f"{option}={value}")
