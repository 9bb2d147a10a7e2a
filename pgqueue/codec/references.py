"""Arguments that stand for what other messages of a flow will have returned.

In a payload such an argument is `{"@": "result", "value": <the message's id>}`. When the message
runs, the tag's value is replaced by what its parent returned, which is then read by the hint of the
parameter that it is for. A result may be a tag, too: of a message that others replaced.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pgqueue.codec.encoding import RESULT, Returned
from pgqueue.codec.json_text import TAG

Resolve = Callable[[Collection[int]], Mapping[int, Returned]]


def resolved(plain: Any, resolve: Resolve) -> Any:
    """Return JSON with the results in it that it refers to, as `Hint.read` takes them.

    Args:
        resolve: returns what came of messages, by their ids. It is called once.
    """
    tags: list[dict[str, Any]] = []
    _find(plain, tags)
    if tags:
        results = resolve({tag["value"] for tag in tags})
        for tag in tags:
            tag["value"] = results[tag["value"]]
    return plain


def referring(message_id: int) -> str:
    """Return as JSON a result that is what another message of the flow returns."""
    return json.dumps({TAG: RESULT, "value": message_id})


def referred(plain: Any) -> int | None:
    """Return the message whose result this one is; None: it is one of its own."""
    if type(plain) is dict and plain.get(TAG) == RESULT and type(plain.get("value")) is int:
        found: int = plain["value"]
        return found
    return None


def referred_in(plain: Any) -> set[int]:
    """Return the ids of the messages whose results JSON refers to."""
    tags: list[dict[str, Any]] = []
    _find(plain, tags)
    return {tag["value"] for tag in tags}


def filled(plain: Any, values: Mapping[int, Any]) -> Any:
    """Return JSON with plain values in the place of the results that it refers to."""
    if type(plain) is list:
        return [filled(each, values) for each in plain]
    if type(plain) is not dict:
        return plain
    if (message_id := referred(plain)) is not None:
        return values.get(message_id)
    if type(inner := _untagged(plain)) is not dict:
        return filled(inner, values)
    return {name: filled(each, values) for name, each in inner.items()}


def _find(plain: Any, tags: list[dict[str, Any]]) -> None:
    if type(plain) is list:
        for each in plain:
            _find(each, tags)
    elif type(plain) is dict:
        if referred(plain) is not None:
            tags.append(plain)
        elif type(inner := _untagged(plain)) is dict:
            for each in inner.values():
                _find(each, tags)
        else:
            _find(inner, tags)


def _untagged(plain: dict[str, Any]) -> Any:
    """Return the value in a tag. A dict in it may have the key "@", and is no tag itself."""
    return plain.get("value") if TAG in plain else plain
