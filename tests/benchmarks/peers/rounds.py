"""One round: each measurement of all peers in turn, so that what is compared ran side by side."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from math import inf

import psycopg

from tests.benchmarks.harness.report import Round
from tests.benchmarks.peers import measures
from tests.benchmarks.peers.measures import Failed, Figures
from tests.benchmarks.peers.peer import ADAPTERS, Peer, module
from tests.benchmarks.peers.places import Place, places

OURS = "pgqueue"
MISSING = "was not measured"
CHORD = 1_000
"""How many members a chord has."""
CONNECTING = {"CONN_MAX_AGE": "0"}
AS_CELERY = {
    "compat_drain_of_celery_redis": "compat_drain_per_s",
    "compat_chord_of_celery_redis": "compat_chord_per_s",
}
"""Ratios whose figure of ours has a name of its own."""


@contextmanager
def measuring(
    names: Collection[str], *, only: Collection[str] | None, finished: int
) -> Iterator[tuple[Rounds, dict[str, str]]]:
    """Have the places that peers store in while this lasts, and what measures them.

    Args:
        names: of peers beside ours; none: all.
        only: the names of measurements to make; None: all.
        finished: how many messages that have ended are in the full place.

    Returns:
        What measures a round, and remarks on each peer, also on those that can't be had.
    """
    with places() as (empty, full):
        # Adapters look for where they store when they are imported.
        os.environ.update(empty.environment)
        wanted = [each for each in ADAPTERS if each in (OURS, *(names or ADAPTERS))]
        peers, remarks = _found(wanted, lambda peer: _install(peer, empty, full, finished))
        yield Rounds(peers, empty, full, only=only), remarks


def _found(
    names: Iterable[str], install: Callable[[Peer], None]
) -> tuple[list[Peer], dict[str, str]]:
    """Return the peers that can be had, and remarks on all."""
    found, remarks = [], {}
    for name in names:
        try:
            peer: Peer = import_module(module(name)).PEER
            install(peer)
        except (ImportError, KeyError, psycopg.Error, Failed) as error:
            # KeyError: it looked for a Redis that is not there.
            print(f"    {error!r}", file=sys.stderr)
            remarks[name] = f"{MISSING}: {str(error).splitlines()[0]} is missing or failed."
        else:
            found.append(peer)
            remarks[name] = f"{peer.title} {peer.version}: {peer.settings}."
    return found, remarks


def _install(peer: Peer, empty: Place, full: Place, finished: int) -> None:
    print(f"  installing: {peer.title}", file=sys.stderr, flush=True)
    for place in (empty, full):
        measures.install(peer, place)
    if peer.finished:
        full.execute(peer.finished, {"count": finished})
        peer.settle_down(full)


@dataclass(frozen=True)
class Measurement:
    """What is done to each peer that it applies to."""

    name: str
    of: Callable[[Peer], Figures]
    applies_to: Callable[[Peer], bool] = lambda peer: True


class Rounds:
    """Measures peers, again and again.

    Args:
        only: the names of measurements to make; None: all.
    """

    def __init__(
        self, peers: Sequence[Peer], empty: Place, full: Place, *, only: Collection[str] | None
    ) -> None:
        self._only = only
        self._peers = peers
        self._empty = empty
        self._full = full

    def measure(self, messages: int) -> Round:
        """Measure all; `messages` is how many of ours there are in a drain."""
        figures: Figures = {}
        remarks: dict[str, str] = {}
        for measurement in self._measurements(messages / self._pace):
            if self._only and measurement.name not in self._only:
                continue
            for peer in filter(measurement.applies_to, self._peers):
                print(f"  {measurement.name}: {peer.title}", file=sys.stderr, flush=True)
                try:
                    found = measurement.of(peer)
                except (Failed, psycopg.Error) as error:
                    print(f"    {error}"[-2000:], file=sys.stderr)
                    remarks[f"{peer.name}_{measurement.name}"] = str(error).splitlines()[0]
                else:
                    figures |= {f"{peer.name}_{name}": each for name, each in found.items()}
        return Round(figures=figures, ratios=ratios(figures, self._peers), remarks=remarks)

    @property
    def _pace(self) -> float:
        return next(peer.pace for peer in self._peers if peer.name == OURS)

    def _measurements(self, seconds: float) -> Iterable[Measurement]:
        """Return all, each of about so many seconds."""
        for each in self._of_tasks(seconds):
            yield replace(
                each, applies_to=lambda peer, each=each: peer.pace > 0 and each.applies_to(peer)
            )
        yield self._of_workflows(seconds)

    def _of_workflows(self, seconds: float) -> Measurement:
        """Return the drain of workflows."""
        return Measurement(
            "workflows",
            lambda peer: {
                "workflows_per_s": measures.drain(
                    peer, self._empty, "workflow", _size(peer.workflow_pace, seconds)
                )
            },
            lambda peer: peer.workflow_pace > 0,
        )

    def _of_tasks(self, seconds: float) -> Iterable[Measurement]:
        """Return the measurements of the peers whose tasks are measured."""

        def size(most: float) -> int:
            return _size(most, seconds)

        def drain(
            name: str, task: str, *, place: Place, most: float = inf, **told: str
        ) -> Measurement:
            return Measurement(
                name,
                lambda peer: {
                    f"{name}_per_s": measures.drain(
                        peer, place, task, size(min(peer.pace, most)), **told
                    )
                },
                # A task that asks the ORM is for those who keep its connections.
                lambda peer: (
                    (peer.is_django or not (told or task == "query"))
                    and (peer.finished is not None or place is not self._full)
                ),
            )

        empty, full = self._empty, self._full
        yield Measurement("enqueue", lambda peer: measures.enqueue(peer, empty, size(500)))
        yield Measurement(
            "bulk",
            lambda peer: measures.bulk(peer, empty, size(10_000)),
            lambda peer: peer.has_bulk,
        )
        yield Measurement("clients", lambda peer: measures.clients(peer, empty, seconds))
        yield drain("drain", "nothing", place=empty)
        yield replace(
            drain("compat_drain", "compat", place=empty), applies_to=lambda peer: peer.name == OURS
        )
        for kind in ("chord", "compat_chord"):
            yield Measurement(
                kind,
                lambda peer, kind=kind: measures.chord(peer, empty, kind, min(CHORD, size(CHORD))),
                lambda peer, kind=kind: peer.has_chords and (peer.name == OURS or kind == "chord"),
            )
        yield drain("nap_drain", "nap", most=15_000, place=empty)
        yield drain("query_drain", "query", most=2_000, place=empty)
        yield drain("connecting_drain", "nothing", place=empty, **CONNECTING)
        yield drain("connecting_nap_drain", "nap", most=15_000, place=empty, **CONNECTING)
        yield drain("connecting_query_drain", "query", most=2_000, place=empty, **CONNECTING)
        yield drain("full_drain", "nothing", place=full)
        yield Measurement("pickup", lambda peer: measures.pickup(peer, empty, size(20)))
        yield Measurement(
            "killed", lambda peer: measures.killed(peer, empty, size(min(peer.pace, 1_000)))
        )


def _size(pace: float, seconds: float) -> int:
    """Return how many tasks take about so many seconds."""
    return max(10, round(pace * seconds))


def ratios(figures: Mapping[str, float], peers: Sequence[Peer]) -> Figures:
    """Compare ours with the best of others, as far as both were measured."""

    def others(suits: Callable[[Peer], bool]) -> list[str]:
        return [peer.name for peer in peers if peer.name != OURS and suits(peer)]

    anybody = others(lambda peer: True)
    on_postgres = others(lambda peer: not peer.on_redis)
    notifying = others(lambda peer: peer.notifies)
    django = others(lambda peer: peer.is_django)
    compared = {
        "drain_of_best_postgres_peer": ("drain_per_s", on_postgres, max),
        "drain_of_celery_redis": ("drain_per_s", ["celery"], max),
        "compat_drain_of_celery_redis": ("drain_per_s", ["celery"], max),
        "chord_of_celery_redis": ("chord_per_s", ["celery"], max),
        "compat_chord_of_celery_redis": ("chord_per_s", ["celery"], max),
        "drain_of_django_ox": ("drain_per_s", ["ox"], max),
        "connecting_drain_of_django_ox": ("connecting_drain_per_s", ["ox"], max),
        "concurrent_enqueue_of_best_notifying_peer": ("clients_per_s", notifying, max),
        "pickup_p50_of_best_peer": ("pickup_p50_ms", anybody, min),
        "orm_drain_of_best_django_peer": ("query_drain_per_s", django, max),
        "connecting_orm_drain_of_best_django_peer": ("connecting_query_drain_per_s", django, max),
        "nap_drain_of_best_peer": ("nap_drain_per_s", anybody, max),
        "full_drain_of_best_peer": ("full_drain_per_s", anybody, max),
        "workflows_of_dbos": ("workflows_per_s", ["dbos"], max),
        "workflows_of_django_absurd": ("workflows_per_s", ["absurd"], max),
    }
    found = {}
    for name, (figure, rivals, best) in compared.items():
        theirs = [figures[f"{each}_{figure}"] for each in rivals if f"{each}_{figure}" in figures]
        ours = f"{OURS}_{AS_CELERY.get(name, figure)}"
        if theirs and ours in figures:
            found[name] = figures[ours] / best(theirs)
    return found
