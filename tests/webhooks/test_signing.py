"""Signatures, as another implementation of Standard Webhooks reads them."""

from __future__ import annotations

import time
from uuid import UUID

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from pgqueue.options import webhook_signing as signing
from pgqueue.options.webhook_options import key_of, new_secret

BODY = b'{"a":"\xc3\xa4"}'
SALT, OTHER = UUID(int=1), UUID(int=2)


def test_another_implementation_verifies_what_is_signed() -> None:
    secret = new_secret()
    headers = signing.headers("msg_1", time.time(), BODY, [key_of(secret)])

    assert Webhook(secret).verify(BODY, headers) == {"a": "\xe4"}
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(BODY + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(BODY, {**headers, "webhook-id": "msg_2"})
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(BODY, headers)


def test_each_of_several_secrets_verifies_it() -> None:
    secrets = [new_secret() for _ in range(3)]
    headers = signing.headers("msg_1", time.time(), BODY, list(map(key_of, secrets)))

    assert len(headers["webhook-signature"].split()) == 3
    for secret in secrets:
        Webhook(secret).verify(BODY, headers)


def test_the_example_of_the_specification_is_signed_so() -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'

    headers = signing.headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body, [key_of(secret)])

    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_an_id_is_the_same_for_the_same_events_and_webhook_alone() -> None:
    ids = {signing.id_of(SALT, [1]), signing.id_of(SALT, [1, 2]), signing.id_of(SALT, [12]),
           signing.id_of(OTHER, [1])}  # fmt: skip

    assert len(ids) == 4
    assert signing.id_of(SALT, [1]) in ids
    assert all(len(id) == 36 and "." not in id for id in ids)
