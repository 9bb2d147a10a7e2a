"""The format text/event-stream, as the HTML standard has it (§9.2): pure functions.

A block ends with an empty line. Its `id` is what a browser sends as Last-Event-ID when it comes
back; a block without `data` moves that, and calls no handler.
"""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

from pgqueue.events.recorded import RecordedEvent
from pgqueue.values.instants import aware

RESET = "pgqueue.reset"
"""The event that says: some were missed, and can't be sent."""
READY = "pgqueue.ready"
"""The event that says: what was missed has come, and from now on all comes."""
CONTENT_TYPE = "text/event-stream; charset=utf-8"
LINE_END = re.compile(r"\r\n|\r|\n")


def block(data: str, *, event: str = "", id: object = "") -> bytes:
    """Return an event: its handlers are those of its name, or `onmessage`."""
    lines = [f"event: {_in_one_line(event)}"] if event else []
    lines += [f"id: {_in_one_line(str(id))}"] if id != "" else []
    lines += [f"data: {line}" for line in LINE_END.split(data)]
    return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")


def comment(text: str) -> bytes:
    """Return what no handler sees."""
    return f": {_in_one_line(text)}\n\n".encode()


def position(id: object) -> bytes:
    """Move what a browser sends as Last-Event-ID, without an event."""
    return f"id: {_in_one_line(str(id))}\n\n".encode()


def retry(delay: timedelta) -> bytes:
    """Say how long a browser waits before it connects again."""
    return f"retry: {delay // timedelta(milliseconds=1)}\n\n".encode()


def id_of(position: int, mark: str) -> str:
    """Return the id of a position, with the mark of the event there."""
    return f"{position}-{mark}"


def recorded(event: RecordedEvent, *, mark: str) -> bytes:
    """Return an event of the log: named by its topic; its id is its position and mark."""
    # PostgreSQL's text of the payload stands as it is: it may be large, and is not ours to read.
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
    """Return the event that says that some are missing after what a browser has seen.

    Args:
        reason: a word.
        last_event_id: what it sent.
        position: where it goes on.
        mark: of this position.
    """
    told: dict[str, Any] = {
        "reason": reason,
        "last_event_id": last_event_id,
        "position": position,
    }
    return block(json.dumps(told), event=RESET, id=id_of(position, mark))


def ready(position: int, *, mark: str) -> bytes:
    """Return the event that says that all comes that is published after a position."""
    id = id_of(position, mark)
    return block(json.dumps({"position": position}), event=READY, id=id)


def _in_one_line(text: str) -> str:
    """Leave out what would begin another field, or have a browser ignore the id."""
    return re.sub(r"[\r\n\x00]", " ", text)
