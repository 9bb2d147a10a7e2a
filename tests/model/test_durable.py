"""Random durable programs, held against a plain evaluation of them.

In one process: everything happens in steps, and each wait costs one run, not more. With real
workers: they are killed, stopped and asked to stop, the server restarts, and signals and events
come early and late, in transactions that stay open or are rolled back.

`make model` goes on with others until its time is up; MODEL_SEED=… repeats one of its rounds.
"""

from __future__ import annotations

import os
import random
import signal as signals
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import connection as django
from hypothesis import given, seed
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from pgqueue import publish
from pgqueue.engine import waking
from pgqueue.models import Blocked, EventWait, History, Message, Step, StoredSignal
from pgqueue.testing import advance, run_all
from tests.chaos.conftest import server, template
from tests.chaos.harness.stage import Stage
from tests.durable.running import deliver
from tests.eventually import eventually
from tests.factories import Connection
from tests.model import programs
from tests.model.programs import Evaluation, Program
from tests.model.test_model import FIRST, MINUTES, SEED, every_time, in_a_round, once_more, seeds

__all__ = ["server", "template"]

pytestmark = pytest.mark.slow


# --- In one process


class Played:
    """One program, its message, and what it needs from others."""

    def __init__(self, number: int) -> None:
        self.chance = random.Random(number)
        self.program = programs.program(self.chance, length=6)
        self.evaluation = Evaluation()
        # The log keeps the events of earlier programs.
        self.place = f"{uuid4()}"
        self.expected = self.evaluation.of(self.program, self.place)

    def play(self, other: Connection) -> None:
        """Run the program, and have signals and events come at any time."""
        result = programs.follow.enqueue(self.program, self.place)
        self.chance.shuffle(self.evaluation.events)
        needed = self._needed()
        for _ in range(10_000):
            if needed and self.chance.random() < 0.5:
                needed = self._give(other, needed)
            elif Message.objects.exists():
                self._go_on(other)
            elif not needed:
                break
        result.refresh()
        assert result.return_value == self.expected, self.program

    def _needed(self) -> list[tuple[str, str, int] | tuple[str, int]]:
        """Return signals and events in an order that keeps the signals of each name in theirs."""
        needed: list[Any] = list(self.evaluation.signals)
        for each in self.evaluation.events:
            needed.insert(self.chance.randint(0, len(needed)), each)
        return needed

    def _give(self, other: Connection, needed: list[Any]) -> list[Any]:
        """Send the first that can be sent, perhaps in a transaction that stays open for a while."""
        for number, each in enumerate(needed):
            if len(each) == 2:
                if each[0].rpartition("/")[0] not in messages():
                    continue
                publish("model", {"n": 0}, key=each[0])
                publish("model", {"n": each[1]}, key=each[0])
                break
            place, name, payload = each
            id = messages().get(place)
            if id is None or any(name == before[1] for before in needed[:number]):
                continue
            with other.transaction(force_rollback=(is_undone := self.chance.random() < 0.2)):
                other.execute("SELECT pgqueue_signal_v1(%s, %s, %s)", [id, name, str(payload)])
                if self.chance.random() < 0.5:
                    run_all()
            if is_undone:
                return needed
            break
        else:
            return needed
        return [*needed[:number], *needed[number + 1 :]]

    def _go_on(self, other: Connection) -> None:
        way = self.chance.random()
        if way < 0.2:
            advance(2)
        elif way < 0.5:
            deliver()
        if self.chance.random() < 0.2:
            # The router meets locked messages, which the duty finds again.
            with other.transaction():
                other.execute(
                    "SELECT FROM pgqueue_message WHERE state IN ('held', 'scheduled') FOR UPDATE"
                )
                run_all()
            waking.ring_missed(other)
        run_all()

    def check(self) -> None:
        """Check what is left: everything once, and no run too many."""
        effects, seen = found()
        check_effects(self.evaluation, effects, seen)
        for model in (Message, Step, StoredSignal, EventWait, Blocked):
            assert not model.objects.exists(), model
        for row in History.objects.filter(task__endswith="follow"):
            place = row.payload["args"][1]
            steps = row.steps["steps"] if row.steps else []
            failures = len(row.errors) + sum((each["tries"] or 1) - 1 for each in steps)
            if "'luck': 0.5" not in str(self.program) and "continue" not in str(self.program):
                # Otherwise, history does not have all errors, or not all steps.
                most = 1 + self.evaluation.waits[place] + failures
                assert row.attempt <= most, (row.attempt, most, self.program)


def messages() -> dict[str, int]:
    """Return the ids of the live messages of programs, by place."""
    rows = Message.objects.filter(task__endswith="follow").values_list("payload", "id")
    return {payload["args"][1]: id for payload, id in rows}


def found() -> tuple[Counter[str], Counter[str]]:
    """Return how many effects and different tokens there are of each place."""
    with django.cursor() as cursor:
        cursor.execute("SELECT place FROM model_effect")
        effects = Counter(place for (place,) in cursor.fetchall())
        cursor.execute("SELECT place FROM model_seen s JOIN model_effect e USING (place, token)")
        return effects, Counter(place for (place,) in cursor.fetchall())


def check_effects(evaluation: Evaluation, effects: Counter[str], seen: Counter[str]) -> None:
    """Check that each effect is there as often as it must be."""
    for place, is_atomic in evaluation.effects.items():
        assert effects[place] == 1 if is_atomic else effects[place] >= 1, (place, effects[place])
    assert set(effects) == set(evaluation.effects)
    assert {place: count for place, count in seen.items() if count != 1} == {}


@pytest.fixture
def tables(transactional_db: None) -> Iterator[None]:
    with django.cursor() as cursor:
        cursor.execute(programs.TABLES)
    yield
    with django.cursor() as cursor:
        cursor.execute("DROP TABLE model_effect, model_seen")


@pytest.mark.usefixtures("tables")
def test_every_program_comes_to_what_a_plain_evaluation_of_it_does(
    connect: Callable[..., Connection],
) -> None:
    other = connect()

    def check(number: int) -> None:
        programs.crashed.clear()
        with django.cursor() as cursor:
            cursor.execute("DELETE FROM model_effect; DELETE FROM model_seen")
        for model in (Message, History, Step, StoredSignal, EventWait, Blocked):
            model.objects.all().delete()
        played = Played(number)
        played.play(other)
        played.check()

    numbers = given(st.integers(0, 2**32))
    if SEED:
        seed(SEED)(once_more(numbers(check)))()
    elif MINUTES:
        for number in seeds():
            seed(number)(in_a_round(numbers(check)))()
    else:
        every_time(numbers(check))()


# --- With real workers

LEASE = 1.0
AT_ONCE = 120


class Round:
    """Many programs at once, workers that suffer, and what they need from others."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.stage = stage
        self.chance = random.Random(number)
        self.programs: list[Program] = []
        self.evaluation = Evaluation()
        self.expected: dict[str, int] = {}
        for each in range(AT_ONCE):
            made = programs.program(self.chance, length=8)
            self.programs.append(made)
            self.expected[f"{each}"] = self.evaluation.of(made, f"{each}")
        self.errors: list[BaseException] = []
        self.faults: Counter[str] = Counter()
        self.deck: list[str] = []

    def play(self, seconds: float) -> None:
        """Let everything happen at once; return when all has ended."""
        with self.stage.server.connect() as connection:
            connection.execute(programs.TABLES)
            connection.execute("DELETE FROM model_effect; DELETE FROM model_seen")
            connection.execute("DELETE FROM pgqueue_history")
            for number, made in enumerate(self.programs):
                payload = {"args": [made, f"{number}"], "kwargs": {}}
                connection.execute(
                    "SELECT pgqueue_enqueue('tests.model.programs.follow', %s, "
                    "max_attempts => 100000)",
                    [Jsonb(payload)],
                )
        givers = [threading.Thread(target=self._giver, args=[number]) for number in range(3)]
        for each in givers:
            each.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._suffer()
        self.stage.replace_the_dead(PGQUEUE_LEASE=str(LEASE))
        for each in givers:
            each.join(120)
            assert not each.is_alive()
        if self.errors:
            raise self.errors[0]
        eventually(self._is_over, within=90, what=self._left())

    # What happens to the workers

    def _suffer(self) -> None:
        time.sleep(self.chance.uniform(0.1, 0.8))
        worker = self.chance.choice(self.stage.living())
        if not self.deck:
            self.deck = ["kill", "kill", "term", "stop", "stop", "restart"]
            self.chance.shuffle(self.deck)
        fault = self.deck.pop()
        self.faults[fault] += 1
        if fault == "kill":
            worker.kill()
        elif fault == "term":
            worker.signal(signals.SIGTERM)
            assert worker.exit_status() == 0, worker.log
        elif fault == "stop":
            worker.signal(signals.SIGSTOP)
            time.sleep(LEASE + self.chance.uniform(0.5, 2))
            worker.signal(signals.SIGCONT)
        else:
            self.stage.server.stop(self.chance.choice(["fast", "immediate", "killed"]))
            self.stage.server.start()
        self.stage.replace_the_dead(PGQUEUE_LEASE=str(LEASE))

    # What programs need from others

    def _giver(self, number: int) -> None:
        chance = random.Random(self.chance.random())
        try:
            self._give(chance, number)
        except BaseException as error:
            self.errors.append(error)

    def _give(self, chance: random.Random, share: int) -> None:
        """Send every third signal and event, each until it is committed for sure."""
        by_name: dict[tuple[str, str], list[int]] = {}
        for message, name, payload in self.evaluation.signals:
            by_name.setdefault((message, name), []).append(payload)
        left: list[Any] = [
            (message, name, payloads)
            for number, ((message, name), payloads) in enumerate(by_name.items())
            if number % 3 == share
        ]
        left += [each for n, each in enumerate(self.evaluation.events) if n % 3 == share]
        until = time.monotonic() + 150
        while left:
            assert time.monotonic() < until, f"nobody waits for {left}"
            each = chance.choice(left)
            with suppress(psycopg.OperationalError):
                done = (
                    self._publish(chance, *each) if len(each) == 2 else self._signal(chance, *each)
                )
                if done:
                    left.remove(each)
            time.sleep(chance.uniform(0, 0.1))

    def _publish(self, chance: random.Random, key: str, n: int) -> bool:
        message = key.rpartition("/")[0]
        with self.stage.server.connect() as connection:
            if self._id(connection, message) is None and chance.random() < 0.9:
                return False  # it would be published before the message is enqueued
            if self._id(connection, message) is None:
                return self._has_ended(connection, message)
            with connection.transaction(force_rollback=(is_undone := chance.random() < 0.2)):
                for each in (0, n):
                    connection.execute(
                        "SELECT pgqueue_publish('model', %s, key => %s)", [f'{{"n": {each}}}', key]
                    )
                time.sleep(chance.choice([0, 0, 0.2, 0.7]))
        return not is_undone

    def _signal(self, chance: random.Random, message: str, name: str, payloads: list[int]) -> bool:
        with self.stage.server.connect() as connection:
            if (id := self._id(connection, message)) is None:
                # The server stopped after a commit, before its answer: all signals were stored.
                return self._has_ended(connection, message)
            for number, payload in enumerate(payloads):
                with connection.transaction(force_rollback=(is_undone := chance.random() < 0.2)):
                    connection.execute(
                        "SELECT pgqueue_signal_v1(%s, %s, %s, %s)",
                        [id, name, f"{payload}", f"{name} {number}"],
                    )
                    time.sleep(chance.choice([0, 0, 0.2, 0.7]))
                if is_undone:
                    return False  # and those before are repeated
        return True

    def _id(self, connection: psycopg.Connection[Any], place: str) -> int | None:
        row = connection.execute(
            "SELECT id FROM pgqueue_message "
            "WHERE task LIKE '%%follow' AND payload -> 'args' ->> 1 = %s",
            [place],
        ).fetchone()
        return row[0] if row else None

    def _has_ended(self, connection: psycopg.Connection[Any], place: str) -> bool:
        query = "SELECT FROM pgqueue_history WHERE payload -> 'args' ->> 1 = %s"
        return connection.execute(query, [place]).fetchone() is not None

    # The end

    def _is_over(self) -> bool:
        row = self.stage.ask("SELECT count(*) FROM pgqueue_message WHERE state <> 'dead'")
        return row is not None and row == (0,)

    def _left(self) -> Any:
        query = (
            "SELECT jsonb_agg(jsonb_build_object('state', m.state, 'payload', m.payload, "
            "'error', m.errors -> -1, "
            "'steps', (SELECT jsonb_agg(to_jsonb(s)) FROM pgqueue_step s "
            "WHERE s.message_id = m.id AND s.state <> 'done'), "
            "'signals', (SELECT jsonb_agg(to_jsonb(g)) FROM pgqueue_signal g "
            "WHERE g.message_id = m.id))) FROM pgqueue_message m"
        )
        return self.stage.later(lambda: str(self.stage.ask(query)))

    def check(self) -> None:
        """Check all results, effects and tables."""
        with self.stage.server.connect() as connection:
            rows = connection.execute(
                "SELECT payload -> 'args' ->> 1, outcome, result, steps, id FROM pgqueue_history "
                "WHERE task LIKE '%%follow'"
            ).fetchall()
            ends = Counter(place for place, *_ in rows)
            assert max(ends.values()) == 1, ends
            results = {place: result for place, _, result, _, _ in rows if place in self.expected}
            assert {outcome for _, outcome, *_ in rows} == {"succeeded"}
            wrong = {
                place: (results.get(place), total, self.programs[int(place)])
                for place, total in self.expected.items()
                if results.get(place) != total
            }
            assert not wrong, wrong
            effects = Counter(
                place for (place,) in connection.execute("SELECT place FROM model_effect")
            )
            seen = Counter(
                place
                for (place,) in connection.execute(
                    "SELECT s.place FROM model_seen s JOIN model_effect e USING (place, token)"
                )
            )
            check_effects(self.evaluation, effects, seen)
            for *_, steps, id in rows:
                taken = [each["taken_by"] for each in (steps or {}).get("signals", [])]
                assert len(taken) == len(set(taken)), (id, taken)
            for table in ("message", "step", "event_wait", "blocked"):
                query = f"SELECT count(*) FROM pgqueue_{table}"  # noqa: S608
                assert connection.execute(query).fetchone() == (0,), table


@pytest.mark.nightly
@pytest.mark.timeout(0)
def test_everything_happens_once_whatever_happens_to_workers_and_server(
    server: Any, tmp_path: Any
) -> None:
    server.start()
    stage = Stage(server, tmp_path, "durable")
    stage.environment.update(PGQUEUE_LEASE=str(LEASE), MODEL_NAP="0.4")
    until = time.monotonic() + 60 * MINUTES / 4
    chance = random.Random(FIRST)
    number = SEED or chance.randrange(10**6)
    try:
        for _ in range(2):
            stage.worker(PGQUEUE_LEASE=str(LEASE))
        while True:
            played = Round(stage, number)
            try:
                played.play(15)
                played.check()
            except BaseException:
                print(f"MODEL_SEED={number}", flush=True)
                raise
            print(
                f"durable: {len(played.evaluation.effects)} effects, {dict(played.faults)}",
                flush=True,
            )
            if time.monotonic() > until:
                break
            number = chance.randrange(10**6)
    finally:
        stage.close()
        if os.environ.get("MODEL_LOGS"):
            stage.show_logs()
