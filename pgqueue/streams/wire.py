"""The format text/event-stream of the HTML standard (§9.2), as pure functions.

A block ends with an empty line. When a browser connects again, it sends the last `id` as
Last-Event-ID. A block without `data` changes that id, and calls no handler.
"""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

from pgqueue.events.recorded import RecordedEvent
from pgqueue.values.instants import aware

RESET = "pgqueue.reset"
"""The event that announces the loss of missed events."""
READY = "pgqueue.ready"
"""The event behind the missed events: from here on, the browser gets all events."""
CONTENT_TYPE = "text/event-stream; charset=utf-8"
LINE_END = re.compile(r"\r\n|\r|\n")


def block(data: str, *, event: str = "", id: object = "") -> bytes:
    """Return an event. A browser calls the handlers of its name; without one, `onmessage`."""
    lines = [f"event: {_in_one_line(event)}"] if event else []
    lines += [f"id: {_in_one_line(str(id))}"] if id != "" else []
    lines += [f"data: {line}" for line in LINE_END.split(data)]
    return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")


def comment(text: str) -> bytes:
    """Return a comment, which browsers ignore."""
    return f": {_in_one_line(text)}\n\n".encode()


def position(id: object) -> bytes:
    """Return a block that changes a browser's Last-Event-ID, without an event."""
    return f"id: {_in_one_line(str(id))}\n\n".encode()


def retry(delay: timedelta) -> bytes:
    """Return a line with a browser's delay before it connects again."""
    return f"retry: {delay // timedelta(milliseconds=1)}\n\n".encode()


def id_of(position: int, mark: str) -> str:
    """Return the id of a position, with the mark of the event there."""
    return f"{position}-{mark}"


def recorded(event: RecordedEvent, *, mark: str) -> bytes:
    """Return an event of the log: its name is the topic, its id the position and the mark."""
    # PostgreSQL's text of the payload is sent unchanged: it may be large, and needs no parsing.
    head = json.dumps(
        {
            "position": event.position,
            "topic": event.topic,
            "key": event.key,
            "created_at": aware(event.created_at).isoformat(),
        }
    )
    payload = event.payload_json or "null"
    id = id_of(event.position, mark)
    return block(f'{head[:-1]}, "payload": {payload}}}', event=event.topic, id=id)


def reset(reason: str, *, last_event_id: str, position: int, mark: str) -> bytes:
    """Return the event that announces the loss of missed events.

    Args:
        reason: the reason as one word.
        last_event_id: the browser's Last-Event-ID.
        position: the position after which the stream goes on.
        mark: the mark of this position.
    """
    told: dict[str, Any] = {
        "reason": reason,
        "last_event_id": last_event_id,
        "position": position,
    }
    return block(json.dumps(told), event=RESET, id=id_of(position, mark))


def ready(position: int, *, mark: str) -> bytes:
    """Return the event that promises all events after a position."""
    id = id_of(position, mark)
    return block(json.dumps({"position": position}), event=READY, id=id)


def _in_one_line(text: str) -> str:
    """Return a text without line ends, which begin a field, and NUL, which voids an id."""
    return re.sub(r"[\r\n\x00]", " ", text)
