"""The results that a message of a flow takes from its parents when it runs."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime

from django.db import connections

from pgqueue.codec.arguments import Codec, parse
from pgqueue.codec.encoding import Returned
from pgqueue.codec.envelope import is_envelope
from pgqueue.codec.references import referred
from pgqueue.engine import flows
from pgqueue.engine.flows import Parent
from pgqueue.exceptions import ParentFailed, UnreadablePayload
from pgqueue.states import Outcome
from pgqueue.tasks import registry
from pgqueue.values.readable import EARLIEST


def results(alias: str, ids: Collection[int], *, since: datetime) -> Mapping[int, Returned]:
    """Return the results or the failures of messages, by their ids.

    Args:
        since: the time at which their child was stored.

    Raises:
        UnreadablePayload: a result is no longer kept, or is not readable.
        DecryptionFailed: a result is encrypted, and no key decrypts it.
    """
    found = flows.results(connections[alias], ids, since=since)
    if earlier := set(ids) - found.keys():
        # These parents had ended before their child was added to the flow.
        found |= flows.results(connections[alias], earlier, since=EARLIEST)
    if missing := set(ids) - found.keys():
        raise UnreadablePayload(
            f"The result of message {min(missing)}, which is an argument, is not kept any more."
        )
    codecs = {name: _codec(name) for name in {parent.task for parent in found.values()}}
    returned = {id: _returned(parent, codecs[parent.task]) for id, parent in found.items()}
    replaced = {id: of for id, each in returned.items() if (of := referred(each.plain)) is not None}
    if replaced:  # the replacing messages may have been replaced, too
        others = results(alias, set(replaced.values()), since=since)
        returned |= {id: others[of] for id, of in replaced.items()}
    return returned


def _codec(name: str) -> Codec | None:
    task = registry.find(name)
    return None if task is None else task.codec


def _returned(parent: Parent, codec: Codec | None) -> Returned:
    if parent.word == Outcome.SUCCEEDED:
        text = parent.result or "null"
        if codec is None:
            plain = parse(f"the result of {parent.task}", text)
            return Returned(parent.task, plain, size=len(text))
        return Returned(
            parent.task,
            codec.plain_result(text),
            hint=codec.returned,
            is_encrypted=is_envelope(text),
            size=len(text),
        )
    error = None if parent.error is None else json.loads(parent.error)
    return Returned(parent.task, error=ParentFailed(parent.id, parent.task, parent.word, error))
