"""What a walsender sends, byte by byte, and what it is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgqueue.replication.protocol import Committed, Decoder, KeepAlive, status

HEAD = bytes.fromhex("77 0000000001a2b3c0 0000000001a2b3c8 0002d5a1c0ffee00")
"""Of data: its type, two positions and a time."""
BEGIN = HEAD + bytes.fromhex("42 00000001 00000010 0002d5a1c0ffee00 000003e9")
RELATION = HEAD + b"R" + bytes.fromhex("00004002") + b"public\0pgqueue_event_inbox\0d\0\1\1id\0"
INSERT = HEAD + bytes.fromhex("49 00004002 4e 0001 74 00000002") + b"17"
COMMIT = HEAD + bytes.fromhex("43 00 00000001 00000010 00000001 00000040 0002d5a1c0ffee00")
KEEPALIVE = bytes.fromhex("6b 00000000 fffffff0 0002d5a1c0ffee00")


def read(*messages: bytes) -> list[Committed | KeepAlive]:
    decoder = Decoder()
    said = (decoder.read(each) for each in messages)
    return [each for each in said if each is not None]


def test_a_transaction_is_one_commit_with_the_number_that_it_began_with() -> None:
    commit = Committed(xid=1001, lsn=0x1_0000_0010, end=0x1_0000_0040)

    assert read(BEGIN, RELATION, INSERT, INSERT, COMMIT) == [commit]


def test_the_next_transaction_has_its_own_number() -> None:
    another = HEAD + bytes.fromhex("42 00000001 00000010 0002d5a1c0ffee00 ffffffff")

    first, second = read(BEGIN, INSERT, COMMIT, another, INSERT, COMMIT)

    assert isinstance(first, Committed)
    assert isinstance(second, Committed)
    assert (first.xid, second.xid) == (1001, 0xFFFFFFFF)


@pytest.mark.parametrize("letter", b"RYITOMUD", ids=chr)
def test_what_else_there_is_in_a_transaction_is_passed_over(letter: int) -> None:
    assert read(BEGIN, HEAD + bytes([letter]) + b"anything") == []


@pytest.mark.parametrize(("last", "wants_reply"), [(0, False), (1, True)])
def test_a_keepalive_says_whether_it_wants_a_reply(last: int, wants_reply: bool) -> None:
    assert read(KEEPALIVE + bytes([last])) == [KeepAlive(0xFFFFFFF0, wants_reply)]


def test_a_message_of_an_unknown_kind_is_passed_over() -> None:
    assert read(b"z1234567890") == []


def test_it_may_be_a_view_of_memory() -> None:
    decoder = Decoder()

    assert decoder.read(memoryview(BEGIN)) is None
    assert decoder.read(memoryview(COMMIT)) is not None


def test_positions_are_numbers_also_where_their_texts_have_another_order() -> None:
    """1/10 comes behind 0/FFFFFFF0, and before it as text."""
    commit, keepalive = read(BEGIN, COMMIT, KEEPALIVE + b"\0")

    assert isinstance(commit, Committed)
    assert commit.lsn > keepalive.end


def test_the_server_is_told_what_was_read_and_what_is_confirmed() -> None:
    at = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(microseconds=258)

    told = status(received=0x1_0000_0040, confirmed=0xFFFFFFF0, at=at)

    confirmed = "00000000 fffffff0"
    assert told == bytes.fromhex(
        f"72 00000001 00000040 {confirmed} {confirmed} 0000000000000102 00"
    )
