"""No statement is compiled just in time, which takes longer than any of them.

Up to PostgreSQL 17 a method that the planner is kept from makes a plan seem to cost 10^10. The
server then compiles the statement if it has a compiler and `jit` is on, which is the default.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.db import connection

import pgqueue
from pgqueue import sql
from pgqueue.engine import live_counts
from pgqueue.listing.index import without
from pgqueue.metrics import exposition
from pgqueue.metrics.fleet import Fleet
from pgqueue.operating import health
from pgqueue.operating.health import ExaminedQueue

pytestmark = pytest.mark.django_db
ROOT = Path(pgqueue.__file__).parent


def setting(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [name])
        return str(cursor.fetchone()[0])


@pytest.fixture(autouse=True)
def _jit_is_on() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL jit = on")


def test_a_function_that_keeps_the_planner_from_a_method_is_not_compiled() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT proname, proconfig FROM pg_proc "
            "WHERE proname LIKE 'pgqueue%' AND proconfig::text LIKE '%enable\\_%'"
        )
        found = dict(cursor.fetchall())

    assert "pgqueue_enqueue_now_v1" in found
    assert [name for name, settings in found.items() if "jit=off" not in settings] == []


def test_a_list_of_the_admin_is_not_compiled_and_leaves_the_transaction_as_it_was() -> None:
    with without("default", "seqscan"):
        assert (setting("enable_seqscan"), setting("jit")) == ("off", "off")

    assert (setting("enable_seqscan"), setting("jit")) == ("on", "on")


def test_counts_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(live_counts, "_seen", lambda *_: seen.append(setting("jit")) or ())

    live_counts.by_state(connection.connection, ["default"])

    assert seen == ["off"]
    assert setting("jit") == "on"


def test_health_checks_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def check(_: ExaminedQueue) -> tuple[health.Status, str]:
        seen.append(setting("jit"))
        return health.Status.OK, ""

    monkeypatch.setattr(health, "CHECKS", {"one": check})

    health.examine("default")

    assert seen == ["off"]


def test_metrics_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(Fleet, "collect", lambda _: seen.append(setting("jit")) or ())

    exposition.of_the_queue("default", accept="")

    assert seen == ["off"]


SET_BACK = ("engine.matching.set_back", "arrow.reading.by_index")
"""It gives a method back; its session has `jit = off`."""


@pytest.mark.parametrize(
    "statement", [name for name, text in sql.statements().items() if "enable_" in text]
)
def test_a_statement_that_keeps_the_planner_from_a_method_keeps_it_from_compiling(
    statement: str,
) -> None:
    text = sql.statements()[statement]

    assert re.search(r"set_config\('jit', 'off', true\)", text) or statement in SET_BACK


def test_python_keeps_the_planner_from_a_method_in_one_place() -> None:
    """A session of our own has `jit = off`: SETTINGS in `database.connections`."""
    places = [
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if re.search(
            r"\benable_(\w*scan|sort|hashagg|material|\w+join|\{)", path.read_text("utf-8")
        )
    ]

    assert sorted(places) == ["database/connections.py", "database/transactions.py"]
