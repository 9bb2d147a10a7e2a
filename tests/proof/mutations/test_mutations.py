"""The planted faults fit the code as it is now, and a proof finds one."""

from __future__ import annotations

import subprocess
import sys

import pytest
from django.db import connection

from tests.proof import mutations
from tests.proof.checker.anomaly import Anomaly
from tests.proof.histories import WRONG
from tests.proof.mutations import ROOT, Mutation
from tests.proof.mutations.__main__ import find
from tests.proof.mutations.planted import PLANTED


@pytest.mark.django_db
@pytest.mark.parametrize("mutation", PLANTED, ids=lambda each: each.name)
def test_its_text_is_there_once(mutation: Mutation) -> None:
    if mutation.function:
        connection.ensure_connection()
        text = mutations.definition(connection.connection, mutation)
    else:
        text = (ROOT / mutation.where).read_text()

    assert mutation.applied(text) != text


def test_names_are_unique() -> None:
    assert len({each.name for each in PLANTED}) == len(PLANTED) >= 12


def test_each_names_rules_that_a_history_shows() -> None:
    shown = {rule for rule, *_ in WRONG.values()}

    assert all(each.found_by and shown.issuperset(each.found_by) for each in PLANTED)


def test_the_page_has_a_row_for_each() -> None:
    page = (ROOT / "docs" / "proof.md").read_text("utf-8")
    table = page.partition("| planted fault | found after |")[2].partition("\n\n")[0]
    rules = [row.split(" | ")[2] for row in table.splitlines()[2:]]

    assert f"All {len(PLANTED)} are found" in page
    assert len(rules) == len(PLANTED)
    assert set(rules) <= {rule for each in PLANTED for rule in each.found_by}


def test_it_is_found_by_its_own_rule_alone() -> None:
    long, short = Anomaly("lost", "it is gone", rows=[{}]), Anomaly("lost", "it is gone")
    other = Anomaly("waiting", "an event is left")
    proofs = iter([[other], [long, other, short]])

    seconds, found, others = find(PLANTED[0], within=60, proof=lambda mutation: next(proofs))

    assert (found, others) == (short, {"waiting"})
    assert 0 <= seconds < 60


def test_it_is_not_found_by_another_rule() -> None:
    other = Anomaly("waiting", "an event is left")

    _, found, others = find(PLANTED[0], within=0.01, proof=lambda mutation: [other])

    assert (found, others) == (None, {"waiting"})


def test_a_text_that_has_moved_is_an_error() -> None:
    with pytest.raises(ValueError, match="is 0 times in pgqueue/engine/claim.sql"):
        PLANTED[2].applied("SELECT 1")


def planted(name: str, code: str) -> str:
    """Return the output of a program in a new interpreter with a planted fault."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=mutations.environment(name),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


SQL = "from pgqueue.engine.settle import SQL; print('e.holder' in SQL['complete'])"
PYTHON = """
from importlib.util import find_spec
spec = find_spec("pgqueue.worker.atomic")
print(type(spec.loader).__name__, bool(spec.loader.get_code(spec.name)))
"""


def test_it_is_planted_in_a_new_interpreter() -> None:
    assert planted("no fence", SQL) == "False\n"
    assert planted("too fast", SQL) == "True\n"
    assert planted("failed effects stay", PYTHON) == "MutatingLoader True\n"
    assert planted("too fast", PYTHON) == "SourceFileLoader True\n"
