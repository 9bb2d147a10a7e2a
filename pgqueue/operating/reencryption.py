"""Encrypt stored values by the first key, so that older keys can be removed.

The walk goes through messages by their ids, the live ones first: a message that ends meanwhile
takes its new values into history. Each batch is a transaction. The walk may be interrupted at any
moment, and be run again: values under the first key stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import get_args

from django.db import transaction
from django.utils.module_loading import autodiscover_modules

from pgqueue.codec.arguments import ARGUMENTS, PROGRESS, RESULT
from pgqueue.codec.envelope import enclosed, token_in
from pgqueue.database.connections import borrow
from pgqueue.database.migration_check import needing_tables
from pgqueue.durable.records import STEP
from pgqueue.engine import reencrypt as engine
from pgqueue.engine.culprits import by_halves, tell
from pgqueue.engine.reencrypt import EncryptedTexts, Rewritten, StepText, Table
from pgqueue.engine.values import Connection
from pgqueue.exceptions import DecryptionFailed
from pgqueue.tasks import encryption, registry
from pgqueue.tasks.log_lines import LOGS
from pgqueue.tasks.signalling import SIGNAL

BATCH = 500
NAMED = 10
"""How many ids a report names."""
PARTS = {"payload": SIGNAL, "lines": LOGS}
"""What of a message is in a part of it, by the place of the value; the others are of steps."""
COLUMNS = {"payload": ARGUMENTS, "progress": PROGRESS, "result": RESULT}


@dataclass
class ReencryptionReport:
    """Counts of the messages that must be encrypted, and the ids that were not written.

    Attributes:
        found: the number of messages with encrypted values, or with values to encrypt.
        renewed: how many were written under the first key; with `dry_run`, how many would be.
        current: how many were under the first key already.
        busy: ids of messages that another session had locked or changed, and of messages whose
            update the database refuses. The log names the refusals.
        undecryptable: ids of messages that no key decrypts, or whose values are damaged.
    """

    found: int = 0
    renewed: int = 0
    current: int = 0
    busy: set[int] = field(default_factory=set)
    undecryptable: set[int] = field(default_factory=set)


def reencrypt(
    alias: str,
    *,
    dry_run: bool = False,
    batch: int = BATCH,
    show: Callable[[int], None] = lambda count: None,
    is_to_stop: Callable[[], bool] = lambda: False,
) -> ReencryptionReport:
    """Encrypt values by the first key that are under another key, or in the open.

    An encrypted task has values in the open if it asked for encryption later, or if SQL has stored
    its messages.

    Args:
        alias: the alias of the queue's database.
        dry_run: only count.
        batch: messages that are looked at in a transaction, at most.
        show: is called with the number of messages that were looked at.
        is_to_stop: returns whether to begin no further batch.

    Raises:
        MissingEncryptionKey: the settings have no key.
        ImportError: cryptography is not installed.
    """
    encryption.require()
    autodiscover_modules("tasks")
    walk = _ReencryptionWalk(alias, dry_run=dry_run, limit=batch, is_to_stop=is_to_stop)
    looked_at = 0
    for ids in (None, walk.report.busy):
        # The second time, try the messages again that were locked: they may have ended meanwhile.
        for table in get_args(Table):
            for count in walk.through(table, ids and frozenset(ids)):
                looked_at += count
                show(looked_at)
        if not walk.report.busy:
            break
    return walk.report


class _ReencryptionWalk:
    def __init__(
        self, alias: str, *, dry_run: bool, limit: int, is_to_stop: Callable[[], bool]
    ) -> None:
        self.report = ReencryptionReport()
        self._alias = alias
        self._dry_run = dry_run
        self._limit = limit
        self._is_to_stop = is_to_stop
        self._tasks = [name for task in registry.each() if task.encrypted for name in task.names]

    def through(self, table: Table, ids: Collection[int] | None) -> Iterator[int]:
        """Walk through a table; yield the number of messages of each batch."""
        after = -(2**63)
        while not self._is_to_stop():
            with (
                needing_tables(self._alias),
                transaction.atomic(using=self._alias),
                borrow(self._alias) as connection,
            ):
                rows = engine.read(
                    connection, table, after=after, tasks=self._tasks, limit=self._limit, ids=ids
                )
                made = [(row, new) for row in rows if (new := self._renewed(row))]
                if made and not self._dry_run:
                    written = _write(connection, table, made)
                    self._note({row.id for row, _ in made}, written)
            if not rows:
                return
            after = rows[-1].id
            yield len(rows)

    def _note(self, tried: Collection[int], written: set[int]) -> None:
        self.report.renewed += len(written)
        self.report.busy -= written
        self.report.busy |= set(tried) - written

    def _renewed(self, row: EncryptedTexts) -> EncryptedTexts | None:
        """Return the new values of a message; None: it stays as it is."""
        report = self.report
        texts = {name: text for name in COLUMNS if (text := getattr(row, name)) is not None}
        parts = [StepText(**each) for each in json.loads(row.steps or "[]")]
        if not (texts or parts):
            return None
        is_new = row.id not in report.busy
        report.found += is_new
        try:
            new = {name: _sealed(row.task, COLUMNS[name], text) for name, text in texts.items()}
            new["steps"] = _sealed_parts(row.task, parts)
        except (DecryptionFailed, TypeError, ValueError, RecursionError):
            # Also a damaged value of another type: the messages behind it must be reached.
            report.undecryptable.add(row.id)
            return None
        if not any(new.values()):
            report.busy.discard(row.id)
            report.current += 1
            return None
        report.renewed += self._dry_run
        return EncryptedTexts(
            row.id, row.finished_at, row.task, **{**dict.fromkeys(COLUMNS), **new}
        )


def _write(connection: Connection, table: Table, made: Sequence[Rewritten]) -> set[int]:
    """Store the new values of messages; return the ids of the written messages."""

    def some(rows: Sequence[Rewritten]) -> set[int]:
        if not rows:
            return set()
        with connection.transaction():
            return engine.write(connection, table, rows)

    def leave(rows: Rewritten, error: Exception) -> None:
        tell("reencrypt", row=f"the {table} message {rows[0].id}", error=error)

    return {id for written in by_halves(some, made, leave) for id in written}


def _sealed(task: str, what: str, text: str) -> str | None:
    """Return the envelope that replaces a text; None: the text stays."""
    try:
        token = token_in(json.loads(text))
    except (ValueError, RecursionError):
        token = None  # a number of 5000 digits, or nested too deeply: no envelope
    if token is None:
        return enclosed(encryption.seal(task, what, text))
    new = encryption.renewed(task, what, token)
    return None if new is None else enclosed(new)


def _sealed_parts(task: str, parts: Sequence[StepText]) -> str | None:
    """Return the new values of steps, signals and log lines as JSON; None: all of them stay."""
    rows = []
    for each in parts:
        what = PARTS.get(each.path[-1], STEP)
        if (new := _sealed(task, what, each.text)) is not None:
            rows.append({**each._asdict(), "text": None, "value": json.loads(new)})
    return json.dumps(rows) if rows else None
