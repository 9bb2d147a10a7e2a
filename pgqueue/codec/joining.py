"""Join the lists of two payloads that call a function with one list.

The lists are joined as texts: so each number keeps its digits.
"""

from __future__ import annotations

import re
from inspect import Parameter
from json import JSONDecoder
from typing import NamedTuple

from pgqueue.codec.json_text import to_json

_BY_POSITION = re.compile(r'\{\s*"args"\s*:\s*\[\s*(?=\[)')
_BY_NAME = re.compile(
    r'\{\s*(?:"args"\s*:\s*\[\s*\]\s*,\s*)?"kwargs"\s*:\s*\{\s*"(\w+)"\s*:\s*(?=\[)'
)
_END_BY_POSITION = re.compile(r'\s*\]\s*(?:,\s*"kwargs"\s*:\s*\{\s*\}\s*)?\}\s*')
_END_BY_NAME = re.compile(r"\s*\}\s*\}\s*")
_decoder = JSONDecoder(parse_int=str, parse_float=str)


class Items(NamedTuple):
    """The items of a list: their JSON without the brackets, and their number."""

    text: str
    number: int


def items_in(payload: str, parameter: Parameter) -> Items | None:
    """Return the items of a payload's only argument; None: it is not one list for the parameter."""
    found, end_of_payload = _BY_POSITION.match(payload), _END_BY_POSITION
    if found is None:
        found, end_of_payload = _BY_NAME.match(payload), _END_BY_NAME
        if found is None or found[1] != parameter.name:
            return None
    start = found.end()
    try:
        items, end = _decoder.raw_decode(payload, start)
    except (ValueError, RecursionError):
        return None
    if not end_of_payload.fullmatch(payload, end):
        return None
    return Items(payload[start + 1 : end - 1].strip(), len(items))


def payload_of(first: Items, second: Items, parameter: Parameter) -> str:
    """Return the payload for a call with the items of both."""
    joined = f"[{','.join(each.text for each in (first, second) if each.number)}]"
    if parameter.kind is Parameter.KEYWORD_ONLY:
        return f'{{"args":[],"kwargs":{{{to_json(parameter.name)}:{joined}}}}}'
    return f'{{"args":[{joined}],"kwargs":{{}}}}'
