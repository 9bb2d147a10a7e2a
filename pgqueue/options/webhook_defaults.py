"""The options of all webhooks in the project's settings: `PGQUEUE["WEBHOOKS"]`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from pgqueue.options.addresses import Network, as_networks
from pgqueue.options.retries import Backoff, Exponential, as_backoff, declare
from pgqueue.options.webhook_options import as_headers, as_timeout
from pgqueue.options.webhook_urls import URL_LIMIT
from pgqueue.values.error_words import hint, shown
from pgqueue.values.names import as_text
from pgqueue.values.number_checks import as_count, as_duration


@dataclass(frozen=True, kw_only=True)
class Endpoints:
    """The options of `PGQUEUE["WEBHOOKS"]` in lower case, with their defaults."""

    timeout: timedelta = timedelta(seconds=10)
    """The limit of a post, from the look-up of the name to the end of the response."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of each post. A webhook's own headers take precedence."""
    backoff: Backoff = field(default_factory=lambda: Exponential(base=10, cap=43_200))
    """The wait of a failed delivery."""
    max_attempts: int = 16
    """The number of errors after which a delivery is a dead letter: two days by this backoff."""
    pause_after: timedelta | None = timedelta(days=1)
    """A webhook is paused after this time of failures without a success; None: never."""
    allow_private: tuple[Network, ...] = ()
    """Networks to which webhooks may be posted, in addition to public ones."""
    source: str = "/pgqueue"
    """The `source` of CloudEvents: a URI that is unique to this project's events."""


def as_endpoints(given: Any) -> Endpoints:
    """Return the options of `PGQUEUE["WEBHOOKS"]`.

    Raises:
        ImproperlyConfigured: an option is unknown, or its value is invalid.
    """
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(f"PGQUEUE['WEBHOOKS'] = {shown(given)}: it must be a dict.")
    known = [each.name.upper() for each in fields(Endpoints)]
    for name in given:
        if name not in known:
            meant = hint(str(name).upper(), known)
            raise ImproperlyConfigured(f"PGQUEUE['WEBHOOKS'] has no option {shown(name)}. {meant}")
    return Endpoints(**{name.lower(): _checked(name, value) for name, value in given.items()})


def _checked(name: str, value: Any) -> Any:
    try:
        return _CHECKS[name](value)
    except (TypeError, ValueError) as error:
        # A header's value may be a password.
        said = "" if name == "HEADERS" else f" = {shown(value)}"
        raise ImproperlyConfigured(f"PGQUEUE['WEBHOOKS'][{name!r}]{said}: {error}") from error


def _backoff(value: Any) -> Backoff:
    backoff = as_backoff(value)
    declare(backoff)
    return backoff


def _source(value: Any) -> str:
    if not value or any(each <= " " for each in as_text(value, URL_LIMIT)):
        raise ValueError("it must be a URI, or a part of one.")
    return str(value)


_CHECKS = {
    "TIMEOUT": as_timeout,
    "HEADERS": as_headers,
    "BACKOFF": _backoff,
    "MAX_ATTEMPTS": as_count,
    "PAUSE_AFTER": lambda value: None if value is None else as_duration(value),
    "ALLOW_PRIVATE": as_networks,
    "SOURCE": _source,
}
