"""The options of webhooks."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from secrets import token_bytes
from typing import Any

from django.utils.translation import gettext_lazy as _

from pgqueue.options import serializers, subscription_options
from pgqueue.options.records import Option, Record, optional
from pgqueue.options.retries import Backoff, as_backoff, dump_backoff, load_backoff
from pgqueue.options.serializers import Serializer
from pgqueue.options.subscription_options import SharedOptions
from pgqueue.values.error_words import shown
from pgqueue.values.names import as_text
from pgqueue.values.number_checks import as_count, as_duration, as_flag

CHANNEL = "webhooks"
"""The channel of their messages, unless another one is given."""
HEADERS_LIMIT = 8000
"""The limit of bytes for all headers together."""
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
VALUE = re.compile(r"[\x20-\x7e\xa0-\xff]*")
OURS = (
    *("connection", "content-encoding", "content-length", "content-type", "expect", "host"),
    *("accept-encoding", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
)
OUR_PREFIXES = ("webhook-", "proxy-")
"""The prefixes of headers that pgqueue or HTTP controls: a user must not set these."""
SECRET = "whsec_"  # noqa: S105
SECRET_LIMIT = 2000
SECRET_BYTES = range(24, 65)
NEW_SECRET_BYTES = 32
LONGEST_TIMEOUT = timedelta(minutes=5)


class WebhookOptions(SharedOptions, total=False):
    """The options of `webhooks.create()`. See `OPTIONS`."""

    topics: str | Iterable[str] | None
    channel: str
    secret: str | None
    headers: Mapping[str, str] | None
    cloudevents: bool
    gzip: bool
    serializer: Serializer | str | None
    timeout: float | timedelta | None
    backoff: Backoff | Sequence[float | timedelta] | None
    max_attempts: int | None


def as_timeout(value: Any) -> timedelta:
    """Return `value`, seconds or a timedelta, if it is a valid timeout of a post.

    Raises:
        TypeError, ValueError: it is invalid.
    """
    timeout = as_duration(value)
    if timeout > LONGEST_TIMEOUT:
        raise ValueError(f"it may be {LONGEST_TIMEOUT.total_seconds():.0f} seconds at most.")
    return timeout


def as_headers(value: Any) -> dict[str, str]:
    """Return `value` if these are valid headers of a user.

    Raises:
        TypeError, ValueError: a header is invalid.
    """
    if not isinstance(value, Mapping):
        raise TypeError("it must be a dict of texts.")
    for name, text in value.items():
        if not isinstance(name, str) or not HEADER.fullmatch(name):
            raise ValueError(f"{shown(name)} is no name of a header.")
        if name.lower() in OURS or name.lower().startswith(OUR_PREFIXES):
            raise ValueError(f"{name} is set by pgqueue itself.")
        # Its value may be a password.
        if not isinstance(text, str) or not VALUE.fullmatch(text):
            raise ValueError(f"the value of {name} must be text in one line, of Latin characters.")
    names = [name.lower() for name in value]
    if len(set(names)) < len(names):
        raise ValueError("a header is given twice.")
    if sum(len(name) + len(text) for name, text in value.items()) > HEADERS_LIMIT:
        raise ValueError(f"they may have {HEADERS_LIMIT} characters at most.")
    return dict(value)


def new_secret() -> str:
    """Return a new random secret."""
    return SECRET + b64encode(token_bytes(NEW_SECRET_BYTES)).decode()


def as_secret(value: Any) -> str:
    """Return `value` if it is a valid secret: "whsec_" and 24 to 64 bytes in base64.

    Raises:
        TypeError, ValueError: it is invalid. The error's text does not contain it.
    """
    secret = as_text(value, SECRET_LIMIT)
    if not secret.startswith(SECRET):
        raise ValueError(f"it must begin with {SECRET!r}.")
    try:
        size = len(key_of(secret))
    except (NoBase64, ValueError) as error:
        raise ValueError(f"it must be base64 behind {SECRET!r}.") from error
    if size not in SECRET_BYTES:
        raise ValueError(f"it must have {SECRET_BYTES[0]} to {SECRET_BYTES[-1]} bytes.")
    return secret


def key_of(secret: str) -> bytes:
    """Return the key of a secret as bytes.

    Raises:
        ValueError: the secret is not base64.
    """
    return b64decode(secret.removeprefix(SECRET), validate=True)


def _secret(value: Any) -> str:
    return new_secret() if value is None else as_secret(value)


def _backoff(value: Any) -> Any:
    return dump_backoff(as_backoff(value))


def _stored_backoff(value: Any) -> Any:
    load_backoff(value)
    return value


POST: Record = {
    "secret": Option(
        about='the secret that signs posts: "whsec_" and 24 to 64 bytes in base64. None: a new '
        "secret, which is the `secret` of the returned webhook.",
        check=_secret,
        row_check=as_secret,
        default_words="a new one",
        help=_("What posts are signed with: whsec_ and base64. Empty: a new one."),
        section="secret",
        is_secret=True,
    ),
    "headers": Option(
        about="headers of each post, in addition to the headers of the settings.",
        check=optional(as_headers, dict),
        row_check=as_headers,
        default_words="none",
        help=_("What is sent with each post."),
        section="post",
        is_json=True,
        is_secret=True,
    ),
    "cloudevents": Option(
        about="post CloudEvents 1.0, in their JSON format.",
        check=as_flag,
        default=False,
        default_words="`False`",
        help=_("Post CloudEvents, as JSON."),
        section="post",
    ),
    "gzip": Option(
        about="compress bodies of 1 KiB or more; the signature covers the uncompressed body.",
        check=as_flag,
        default=True,
        default_words="`True`",
        help=_("Compress bodies of 1 KiB or more."),
        section="post",
    ),
    "serializer": Option(
        about="a function that makes the body, declared by `@serializer`, or its name.",
        check=serializers.name_of,
        default_words="JSON",
        help=_("The import path of a function that makes the body."),
        section="post",
    ),
    "timeout": Option(
        about="seconds or a timedelta for a whole exchange; None: as the settings say.",
        check=optional(as_timeout),
        row_check=optional(as_timeout),
        default_words="`TIMEOUT`",
        help=_("How long a post may take. Empty: as PGQUEUE says."),
        section="post",
    ),
    "backoff": Option(
        about="the wait after a failure: `Exponential(…)`, a list of seconds, or a function "
        "declared by `@backoff`; None: as the settings say.",
        check=optional(_backoff),
        row_check=optional(_stored_backoff),
        default_words="`BACKOFF`",
        help=_(
            'Seconds to wait after each failure: [10, 60, 3600], or {"base": 10, "cap": '
            "3600}. Empty: as PGQUEUE says."
        ),
        section="post",
        is_json=True,
    ),
    "max_attempts": Option(
        about="the number of failures after which a delivery is a dead letter; None: as the "
        "settings say.",
        check=optional(as_count),
        default_words="`MAX_ATTEMPTS`",
        section="post",
    ),
}
"""The options of posts by their names, in the order of forms and docs."""
OF_SUBSCRIPTIONS: Record = {
    # The key of its messages is its name.
    **{name: each for name, each in subscription_options.OPTIONS.items() if name != "key"},
    "channel": replace(
        subscription_options.OPTIONS["channel"],
        about="the channel of its messages.",
        default=CHANNEL,
        default_words=f'`"{CHANNEL}"`',
    ),
}
OPTIONS: Record = {**OF_SUBSCRIPTIONS, **POST}
"""Each option of a webhook by its name."""
