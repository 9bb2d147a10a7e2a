"""The ended messages of a command: chosen by their ids, or by a filter of history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgqueue.listing.messages import OLDEST_FIRST
from pgqueue.management import rows
from pgqueue.management.selection import in_batches
from pgqueue.models import History, Message
from pgqueue.operating import bulk


@dataclass(frozen=True, kw_only=True)
class EndedSelection:
    """The messages to enqueue once more, in the order of their ids.

    Args:
        alias: The alias of the database.
        ids: The named ids, of ended messages or dead letters; without any, `wanted` finds ended
            messages.
        wanted: The required values of their columns.
        after, up_to: Messages with an id up to `after`, or beyond `up_to`, are left out.
    """

    alias: str
    ids: Sequence[int] = ()
    wanted: Mapping[str, Any]
    after: int = 0
    up_to: int

    def batches(self) -> Iterator[list[int]]:
        """Yield the ids, at most 1 000 at a time; read them from the list stretch by stretch.

        A rerun that ends meanwhile has an id beyond `up_to`: it is not enqueued again.
        """
        return in_batches(self._stretches())

    def existing(self) -> Iterator[list[int]]:
        """Yield the same ids, without named messages that do not exist, or have not ended."""
        for batch in self.batches():
            if not self.ids:
                yield batch
                continue
            found: set[int] = set()
            for table in self._tables:
                found.update(table.filter(pk__in=batch).values_list("pk", flat=True))
            yield sorted(found)

    def read(self, ids: Sequence[int]) -> list[rows.Row]:
        """Return the rows of some of the messages, in the order of their ids."""
        found = [row for table in self._tables for row in rows.read(table, ids)]
        return sorted(found, key=lambda row: int(row["id"]))

    def metadata_of(self, id: int) -> Any:
        """Return the metadata of a message; {}: it is gone."""
        found = [each for table in self._tables for each in table.filter(pk=id)[:1]]
        return found[0].metadata if found else {}

    @property
    def _tables(self) -> tuple[Any, Any]:
        return History.objects.using(self.alias), Message.objects.using(self.alias).dead()

    def _stretches(self) -> Iterator[list[int]]:
        if self.ids:
            yield sorted(set(self.ids))
            return
        ended, _ = self._tables
        # An operation on many messages is begun by its own command or page.
        own = ended.filter(pk__gt=self.after, pk__lte=self.up_to).exclude(task__in=bulk.TASKS)
        listing = OLDEST_FIRST.listing(own, self.wanted)
        yield from (stretch.ids for stretch in listing.stretches())


def newest_ended(alias: str) -> int:
    """Return the id of the newest ended message; 0: there is none."""
    return History.objects.using(alias).order_by("-pk").values_list("pk", flat=True).first() or 0
