"""The context of a trace in the metadata of messages and events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link

from pgqueue.engine.values import Claim, events_of

EMPTY = "{}"
MESSAGE = "messaging.message.id"
MOST_LINKS = 128
"""The maximum of links of a span: the SDK drops further ones."""

Carrier = Mapping[str, Any]


class MessageOrigin(NamedTuple):
    """The origin of messages: the spans that stored them.

    Attributes:
        parent: the context of the one span; an empty context if there is no span, or several.
        links: the links to the spans.
    """

    parent: Context
    links: Sequence[Link]


def added(carrier: Carrier, text: str) -> str:
    """Return a JSON object's text of metadata, with the context of a trace added.

    Metadata in which the user has set a context stay unchanged.
    """
    given = json.loads(text)
    return text if not carrier or _carries(given) else json.dumps({**given, **carrier})


def origin(carriers: Iterable[Carrier]) -> MessageOrigin:
    """Return the origin of messages with these metadata."""
    found = {}
    for carrier in carriers:
        # Users' metadata may have values of any type.
        context = propagate.extract(
            {k: v for k, v in carrier.items() if isinstance(v, str)}, Context()
        )
        span = trace.get_current_span(context).get_span_context()
        if span.is_valid:
            found[span.trace_id, span.span_id] = context, Link(span)
        if len(found) == MOST_LINKS:
            break
    contexts = [context for context, _ in found.values()]
    return MessageOrigin(
        contexts[0] if len(contexts) == 1 else Context(), [link for _, link in found.values()]
    )


def links_to(messages: Iterable[tuple[int, str]]) -> list[Link]:
    """Return links to the spans that stored messages, each with the message's id.

    Args:
        messages: ids, and metadata as JSON text.
    """
    found = [
        (id, link)
        for id, text in messages
        if text != EMPTY
        for link in origin([json.loads(text)]).links
    ]
    return [Link(link.context, {MESSAGE: str(id)}) for id, link in found]


def carriers_of(claim: Claim, metadata: Carrier) -> list[Carrier]:
    """Return the metadata with the origin of a message: its own, or its events' metadata."""
    if not metadata:
        return []
    if _carries(metadata) or not claim.payload:
        return [metadata]
    # A message of a subscription. Its payload is parsed only if it contains a field's name.
    fields = propagate.get_global_textmap().fields
    if "position" not in metadata or not any(
        f'"{each}"'.encode() in claim.payload for each in fields
    ):
        return []
    return [each["metadata"] for each in events_of(claim) if isinstance(each.get("metadata"), dict)]


def _carries(metadata: Carrier) -> bool:
    return any(field in metadata for field in propagate.get_global_textmap().fields - {"baggage"})
