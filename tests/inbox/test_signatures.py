"""Signatures are those of Standard Webhooks: an implementation that is not ours makes them."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from pgqueue.exceptions import InvalidSecret
from pgqueue.inbox.signatures import Unverified, as_secrets, verify

SECRET = f"whsec_{b64encode(b'a' * 32).decode()}"
OTHER = b64encode(b"b" * 24).decode()
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
MINUTES = timedelta(minutes=5)
BODY = b'{"type": "order.paid"}'


def signed(
    body: bytes = BODY, *, secret: str = SECRET, id: str = "m-1", at: datetime = NOW
) -> dict[str, str]:
    """Return the headers of a message."""
    return {
        "Webhook-Id": id,
        "webhook-timestamp": str(int(at.timestamp())),
        "WEBHOOK-SIGNATURE": Webhook(secret).sign(id, at, body.decode()),
    }


def check(
    headers: dict[str, str], *bodies: bytes, secrets: Any = SECRET, tolerance: timedelta = MINUTES
) -> str:
    known = as_secrets(secrets)
    now = NOW.timestamp()
    return verify(known, headers, bodies or [BODY], tolerance=tolerance, now=now)


class TestASignature:
    def test_of_one_of_the_secrets_is_valid(self) -> None:
        assert check(signed()) == "m-1"
        assert check(signed(), secrets=[OTHER, SECRET]) == "m-1"
        assert check(signed(secret=OTHER), secrets=[OTHER, SECRET]) == "m-1"
        assert check(signed(secret=OTHER), secrets=OTHER.encode()) == "m-1"

    def test_of_one_of_the_forms_of_a_body_is_valid(self) -> None:
        assert check(signed(), b"zipped", BODY) == "m-1"

    def test_may_be_one_of_several(self) -> None:
        both = f"v1a,abc {signed(secret=OTHER)['WEBHOOK-SIGNATURE']} "
        both += signed()["WEBHOOK-SIGNATURE"]

        assert check({**signed(), "WEBHOOK-SIGNATURE": both}) == "m-1"

    @given(body=st.text().map(str.encode), id=st.text(st.characters(codec="ascii"), min_size=1))
    def test_is_valid_for_every_body_and_id(self, body: bytes, id: str) -> None:
        assert check(signed(body, id=id), body) == id


class TestNoSignature:
    @pytest.mark.parametrize("changed", [b"", BODY + b" ", BODY.replace(b"paid", b"made")])
    def test_is_valid_for_another_body(self, changed: bytes) -> None:
        with pytest.raises(Unverified, match="another secret, or changed"):
            check(signed(), changed)

    @pytest.mark.parametrize(
        "changed",
        [
            {"Webhook-Id": "m-2"},
            {"webhook-timestamp": str(int(NOW.timestamp()) + 1)},
            {"WEBHOOK-SIGNATURE": "v1,"},
            {"WEBHOOK-SIGNATURE": "v2,abc"},
            {"WEBHOOK-SIGNATURE": "ä"},
        ],
    )
    def test_is_valid_for_other_headers(self, changed: dict[str, str]) -> None:
        with pytest.raises(Unverified, match="another secret, or changed"):
            check({**signed(), **changed})

    def test_without_its_version_is_valid(self) -> None:
        bare = signed()["WEBHOOK-SIGNATURE"].removeprefix("v1,")

        with pytest.raises(Unverified, match="another secret"):
            check({**signed(), "WEBHOOK-SIGNATURE": bare})

    def test_of_another_secret_is_valid(self) -> None:
        with pytest.raises(Unverified, match="another secret"):
            check(signed(secret=OTHER))

    @pytest.mark.parametrize("seconds", [-301, 301])
    def test_is_valid_for_longer_than_its_tolerance(self, seconds: int) -> None:
        late = NOW + timedelta(seconds=seconds)

        with pytest.raises(Unverified, match="too old, or the clocks"):
            check(signed(at=late))
        assert check(signed(at=late), tolerance=2 * MINUTES) == "m-1"
        almost = NOW + timedelta(seconds=seconds) * 299 / 301
        assert check(signed(at=almost)) == "m-1"

    @pytest.mark.parametrize("name", ["Webhook-Id", "webhook-timestamp", "WEBHOOK-SIGNATURE"])
    def test_is_valid_where_a_header_is_missing(self, name: str) -> None:
        headers = signed()
        del headers[name]

        with pytest.raises(Unverified, match=f"The header {name.lower()} is missing"):
            check(headers)

    @pytest.mark.parametrize("sent_at", ["soon", "-5", "1.5", "٣", " 1", "9" * 10_000])
    def test_is_valid_where_the_time_is_none(self, sent_at: str) -> None:
        with pytest.raises(Unverified):
            check({**signed(), "webhook-timestamp": sent_at})


class TestASecret:
    @pytest.mark.parametrize(
        ("secret", "said"),
        [
            ("", "Secret 1 has 0 bytes"),
            ("whsec_abc", "Secret 1 has 2 bytes"),
            ("no base64!", "Secret 1 must be text in base64"),
            (b64encode(b"short").decode(), "has 5 bytes: it must have 24 to 64"),
            (b64encode(b"x" * 65).decode(), "has 65 bytes"),
            ([SECRET, 5], "Secret 2 must be text"),
            ([SECRET, b"\xff"], "Secret 2 must be text"),
            ([], "There is no secret"),
            (None, "There is no secret"),
            (5, "There is no secret"),
        ],
    )
    def test_that_can_not_be_is_refused(self, secret: Any, said: str) -> None:
        with pytest.raises(InvalidSecret, match=said):
            as_secrets(secret)

    def test_may_lack_what_fills_it_up(self) -> None:
        assert as_secrets(SECRET.rstrip("=")) == as_secrets(SECRET) == [b"a" * 32]

    def test_is_in_no_error(self) -> None:
        with pytest.raises(InvalidSecret) as raised:
            as_secrets("my-password-is-no-base64")

        assert "password" not in str(raised.value)
