"""What docs/guide/commands.md says of the commands."""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentParser
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class
from django.db import connection

from tests import test_reencryption
from tests.docs.shop import install_shop
from tests.management import test_flows, test_list, test_show, test_stats
from tests.management.calling import call

PAGE = (Path(__file__).parent.parent.parent / "docs/guide/commands.md").read_text("utf-8")
OURS = sorted(name for name, app in get_commands().items() if app == "pgqueue")


def parser_of(name: str) -> ArgumentParser:
    return load_command_class("pgqueue", name).create_parser("manage.py", name)


def keys(name: str) -> set[str]:
    """Return the keys that the page promises of a command's JSON."""
    _, _, text = PAGE.partition(f"<!-- keys of {name} -->\n")
    # What is in brackets belongs to a key's value.
    return set(
        re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", text.partition("\n\n")[0], flags=re.S))
    )


def test_the_table_has_every_command() -> None:
    assert sorted(re.findall(r"`(runworker|pgqueue_\w+)`", PAGE.partition("\n\n**Exit")[0])) == OURS


def test_the_keys_are_those_that_are_tested() -> None:
    assert keys("pgqueue_list") == test_list.KEYS
    assert keys("pgqueue_flows") == test_flows.KEYS
    assert keys("pgqueue_show") == test_show.KEYS
    assert keys("pgqueue_stats") == test_stats.KEYS
    assert keys("pgqueue_reencrypt") == test_reencryption.KEYS


@pytest.mark.parametrize("name", OURS)
def test_a_command_that_says_something_can_say_it_in_json_on_any_database(name: str) -> None:
    long_lived = {"runworker", "pgqueue_worker", "pgqueue_watch"}
    of_tables = {"pgqueue_backfill", "pgqueue_deadletters", "pgqueue_export", "pgqueue_roles"}
    parser = parser_of(name)
    verbs = [
        each
        for action in parser._actions
        if action.dest == "verb" and isinstance(action.choices, dict)
        for each in action.choices.values()
    ]
    texts = " ".join(each.format_help() for each in (parser, *verbs))

    for each in (parser, *verbs):
        is_another_kind = name in long_lived | of_tables or each.prog.endswith(" run")
        assert "--format" in each.format_help() or (each is parser and verbs) or is_another_kind
    assert "--database" in texts or name in ("pgqueue_import", "pgqueue_from_celery")


@pytest.mark.parametrize(
    "name", ["pgqueue_channel", "pgqueue_group", "pgqueue_schedule", "pgqueue_subscription"]
)
def test_the_database_is_named_before_a_verb_or_behind_it(name: str) -> None:
    parser = parser_of(name)

    assert parser.parse_args(["--database", "queue", "list"]).database == "queue"
    assert parser.parse_args(["list", "--database", "queue"]).database == "queue"
    assert parser.parse_args(["list"]).database is None


def test_the_options_that_a_synopsis_names_exist() -> None:
    synopses = re.findall(r"^    manage\.py (pgqueue_\w+)(.*(?:\n     .*)*)", PAGE, re.M)

    assert len(synopses) >= 6
    for name, text in synopses:
        known = parser_of(name)._option_string_actions
        assert [each for each in re.findall(r"--[\w-]+", text) if each not in known] in (
            [],
            ["--state"],  # "the same, but --state"
        ), name


@pytest.mark.django_db
def test_the_examples_say_what_they_say(own_tasks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    install_shop(monkeypatch)
    # Numbers that nothing else in the output has.
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT setval('pgqueue_message_id_seq', last_value + 70000) "
            "FROM pgqueue_message_id_seq"
        )
        [last] = cursor.fetchone()
    real = {"4711": str(last + 1), "4712": str(last + 2)}

    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.M | re.S):
        for example in re.findall(r"^\$ manage\.py (.*?)(?=^\$ |\Z)", block, re.M | re.S):
            for shown, id in real.items():
                example = example.replace(shown, id)
            command, _, promised = example.partition("\n")

            said = call(*shlex.split(command)).out

            pattern = re.escape(_squeezed(promised)).replace("…", ".*")
            assert re.fullmatch(pattern, _squeezed(said), re.S), said


def _squeezed(text: str) -> str:
    """Return a text whose columns may have any width: ids have more or fewer digits."""
    return re.sub(r"  +", "  ", text).strip()
