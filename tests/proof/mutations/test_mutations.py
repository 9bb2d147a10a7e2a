"""The planted faults fit the code as it is now, and a proof finds one."""

from __future__ import annotations

import subprocess
import sys

import pytest
from django.db import connection

from tests.proof import mutations
from tests.proof.mutations import ROOT, Mutation
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
