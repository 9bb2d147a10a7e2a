"""What others send, byte by byte: it is read, or refused by an error of ours.

`make fuzz MINUTES=…` looks for more examples than the suite has.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.test import AsyncRequestFactory
from hypothesis import given
from hypothesis import strategies as st

from pgqueue.exceptions import FeedUnavailable
from pgqueue.inbox.signatures import Unverified, as_secrets, verify
from pgqueue.options.filters import Filter
from pgqueue.options.webhook_signing import ID, SIGNATURE, TIMESTAMP
from pgqueue.replication.protocol import Committed, Decoder, KeepAlive
from pgqueue.sse import event_stream

HEAD = b"w" + bytes(24)
BEGIN = HEAD + b"B" + bytes(20)
COMMIT = HEAD + b"C" + bytes(25)
KEEPALIVE = b"k" + bytes(17)

KEYS = as_secrets("whsec_" + "a" * 32)
NOW = 1_780_000_000
TEXTS = st.text(st.characters(codec=None))
"""With lone surrogates: headers come from whatever serves."""


def cut(whole: bytes) -> st.SearchStrategy[bytes]:
    return st.integers(0, len(whole)).map(lambda end: whole[:end])


STREAMED = st.one_of(
    st.binary(max_size=80),
    *(cut(each) for each in (BEGIN, COMMIT, KEEPALIVE)),
    st.builds(bytes.__add__, st.sampled_from([HEAD, b"w", b"k"]), st.binary(max_size=60)),
)


@given(st.lists(STREAMED, max_size=5))
def test_what_a_server_streams_is_read_or_refused(messages: list[bytes]) -> None:
    decoder = Decoder()
    for message in messages:
        try:
            said = decoder.read(message)
        except FeedUnavailable:
            continue
        assert said is None or isinstance(said, Committed | KeepAlive)


@pytest.mark.parametrize("whole", [BEGIN, COMMIT, KEEPALIVE], ids=["begin", "commit", "keepalive"])
def test_what_a_server_streams_is_refused_where_it_ends_too_early(whole: bytes) -> None:
    Decoder().read(whole)

    for end in range(len(whole)):
        with pytest.raises(FeedUnavailable, match=f"message of {end} bytes, which ends too early"):
            Decoder().read(whole[:end])


@given(
    st.fixed_dictionaries(
        {},
        optional={
            ID: TEXTS,
            TIMESTAMP: st.one_of(TEXTS, st.just(str(NOW))),
            SIGNATURE: st.one_of(TEXTS, TEXTS.map("v1,{}".format)),
        },
    ),
    st.lists(st.binary(), max_size=2),
)
def test_a_signature_that_is_none_is_refused(headers: dict[str, str], bodies: list[bytes]) -> None:
    with pytest.raises(Unverified):
        verify(KEYS, headers, bodies, tolerance=timedelta(minutes=5), now=NOW)


@pytest.mark.parametrize("name", [ID, SIGNATURE])
def test_a_header_that_is_no_text_is_named(name: str) -> None:
    headers = {ID: "m-1", TIMESTAMP: str(NOW), SIGNATURE: "v1,abc", name: "\ud800"}

    with pytest.raises(Unverified, match=f"The header {name} is no text"):
        verify(KEYS, headers, [b"{}"], tolerance=timedelta(minutes=5), now=NOW)


def ask(headers: dict[str, str], query: Any) -> int:
    """Return the status that a stream begins with."""
    view = event_stream(authorize=allow)
    request = AsyncRequestFactory().get("/events/", query, headers=headers)
    assert isinstance(request, ASGIRequest)
    return asyncio.run(view(request)).status_code


async def allow(request: HttpRequest, asked: Filter) -> bool:
    return True


WORDS = st.one_of(
    st.text(max_size=200),
    st.sampled_from(["order.*", "**", "9" * 99, "-1", "٣", '{"a":', "[" * 999]),
)


@given(
    seen=WORDS, query=st.fixed_dictionaries({}, optional={"topic": st.lists(WORDS, max_size=60)})
)
def test_any_last_event_id_and_topics_begin_a_stream_or_are_refused(
    seen: str, query: dict[str, Any]
) -> None:
    header = seen.encode().decode("latin1")  # as a server reads it
    assert ask({"Last-Event-ID": header}, query) in (HTTPStatus.OK, HTTPStatus.BAD_REQUEST)
    assert ask({}, {**query, "last_event_id": seen}) in (HTTPStatus.OK, HTTPStatus.BAD_REQUEST)


CONDITIONS = st.dictionaries(
    WORDS,
    st.recursive(st.none() | st.booleans() | st.floats() | WORDS, st.lists, max_leaves=5),
    max_size=3,
)


@given(st.one_of(WORDS, CONDITIONS.map(str), CONDITIONS.map(json.dumps)))
def test_any_conditions_begin_a_stream_or_are_refused(where: str) -> None:
    assert ask({}, {"where": where}) in (HTTPStatus.OK, HTTPStatus.BAD_REQUEST)


PROFILE = """
from hypothesis import settings
import tests.conftest
print(settings.get_profile("many").derandomize, settings.default.derandomize)
"""


@pytest.mark.slow
def test_other_examples_are_drawn_by_the_profile_many_also_where_ci_is_set() -> None:
    command = [sys.executable, "-c", PROFILE]
    done = subprocess.run(
        command, env={**os.environ, "CI": "true"}, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["False", "True"]
