"""The `PGQUEUE` setting, checked once and read through `settings()`."""

from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import cache, partial
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from pgqueue.options.retention import Retention, as_retention
from pgqueue.options.retries import (
    Backoff,
    Exponential,
    as_backoff,
    declare,
)
from pgqueue.options.schedules import Entry, as_entries
from pgqueue.options.webhook_defaults import Endpoints, as_endpoints
from pgqueue.redaction import FIELDS, as_fields
from pgqueue.states import Outcome
from pgqueue.values.attempts import MAX_ATTEMPTS
from pgqueue.values.error_words import hint, shown
from pgqueue.values.log_levels import as_level
from pgqueue.values.names import as_channel, as_identifier, as_path, as_slot
from pgqueue.values.number_checks import as_count, as_duration, as_flag

MONTH = timedelta(days=30)
MOST_THREADS = 10_000
MOST_TENANTS = 500
SHORTEST_TOKEN = 16
LONGEST_RELEASE = 200
KEY_BYTES = 32
SECRET = {"METRICS_TOKEN", "ENCRYPTION_KEYS"}
"""Options whose values no error shows."""
FEEDS = ("poll", "wal")

Schedules: TypeAlias = "Mapping[str, Entry]"
Fields: TypeAlias = "tuple[str, ...]"
Keys: TypeAlias = "tuple[str, ...]"


def _for_a_month() -> Retention:
    return dict.fromkeys(Outcome.values, MONTH)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The keys of the `PGQUEUE` dict, in lower case, with their defaults.

    Durations are given as seconds or `timedelta`. docs/settings.md is made of the docstrings below.
    """

    database: str = "default"
    """The alias of the database that has the queue's tables."""
    default_channel: str = "default"
    """The channel of tasks that name none."""
    lease: timedelta = timedelta(seconds=30)
    """The time without a heartbeat after which other workers take over the messages of a worker."""
    poll_interval: timedelta = timedelta(seconds=5)
    """The longest nap of an idle worker, at most 20 s: the delay of a lost notification."""
    threads: int = 8
    """The number of tasks that one worker runs at once."""
    grace: timedelta = timedelta(seconds=25)
    """The time that running tasks have to end after a worker was asked to stop."""
    max_attempts: int = MAX_ATTEMPTS
    """The number of errors after which a message is dead. With the default of BACKOFF, 20 attempts
    take nearly three days.
    """
    max_lost: int = 3
    """The number of workers that may die while they run a message before the message is dead."""
    max_steps: int = 10_000
    """The number of steps that a durable run may have."""
    backoff: Backoff = field(default_factory=Exponential)
    """The delay of a failed message: a policy, a list of delays or a function."""
    retention: Retention = field(default_factory=_for_a_month)
    """The time that ended messages are kept; or a dict of times by outcome, such as
    `{"succeeded": timedelta(days=7)}`.
    """
    dead_retention: timedelta = 3 * MONTH
    """The time that dead letters are kept before they are discarded."""
    export_before_drop: bool = False
    """Whether history and events are removed only after every export has them, whatever their age.
    EVENT_MAX_AGE still removes events.
    """
    event_retention: timedelta = MONTH
    """The least time that events are kept. They are removed by the million, after all groups have
    passed them.
    """
    event_max_age: timedelta | None = None
    """The age at which events are removed even if a group has not passed them. It is
    EVENT_RETENTION or more. None: never.
    """
    keep_connections: bool = True
    """Whether a worker's thread keeps its Django connections open while it has work, although
    their CONN_MAX_AGE is 0. Otherwise it closes them after each task, as Django does after each
    request.
    """
    feed: str = "poll"
    """The notifier of readers of events. "poll": each publisher notifies them. "wal": a process
    that follows PostgreSQL's write-ahead log does (`manage.py pgqueue_replication`).
    """
    replication_slot: str = "pgqueue"
    """The slot of that process. Slots belong to a whole server: two databases need two."""
    publication: str = "pgqueue"
    """The publication of that process."""
    schedules: Schedules = field(default_factory=dict)
    """Tasks that are enqueued at set times: a dict by name, with the options of `Schedule` and the
    `task`.
    """
    webhooks: Endpoints = field(default_factory=Endpoints)
    """Defaults of all webhooks: a dict of TIMEOUT, HEADERS, BACKOFF, MAX_ATTEMPTS, PAUSE_AFTER,
    ALLOW_PRIVATE and SOURCE.
    """
    release: str = ""
    """The deployed version or commit. Workers, and the errors of their runs, name it."""
    base_url: str = ""
    """The address of the project's site, such as "https://shop.example", for the links of
    `signal_url()`. "": they are paths.
    """
    tenant: str | None = None
    """The import path of a module or an object with the functions `current()` and `enter(tenant)`:
    each message runs in the tenant of its producer. With `all()`, a schedule may have a message for
    each tenant. None: pgqueue knows no tenants.
    """
    tenant_metrics: int = 0
    """The most tenants whose messages and runs the metrics tell apart, 500 at most. The metrics sum
    up further tenants. 0: there are no metrics by tenant.
    """
    redact: Fields = FIELDS
    """The names of fields whose values the admin, commands, logs and exports do not show: a list
    that replaces `pgqueue.redaction.FIELDS`. Whole words are compared, in any case: "token" also
    stands for access_token and accessToken.
    """
    run_logs: str | None = None
    """The least level of the log lines that are kept with each run, such as "INFO", of tasks that
    name no `logs`. None: none are kept.
    """
    metrics_token: str = field(default="", repr=False)
    """The bearer token or password that Prometheus sends to the view of metrics: 16 characters or
    more. Without one, only staff may see the figures.
    """
    encryption_keys: Keys = field(default=(), repr=False)
    """Keys of tasks with `encrypted=True`, as `Fernet.generate_key()` makes them. The first key
    encrypts, and every key decrypts.
    """

    @property
    def heartbeat(self) -> timedelta:
        """How often leases are renewed: two heartbeats may fail before one runs out."""
        return self.lease / 3

    @property
    def fed_by(self) -> str | None:
        """The slot of the process that notifies those who wait for events; None: there is none."""
        return self.replication_slot if self.feed == "wal" else None


@cache
def settings() -> Settings:
    """Return the project's settings.

    Raises:
        ImproperlyConfigured: an option has an unknown name or an invalid value.
    """
    return read(getattr(django_settings, "PGQUEUE", {}))


def read(given: Mapping[str, Any]) -> Settings:
    """Turn a `PGQUEUE` dict into settings."""
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(f"PGQUEUE = {shown(given)}: it must be a dict.")
    known = {each.name.upper(): each for each in fields(Settings)}
    for name in given:
        if name not in known:
            meant = hint(name.upper(), known)
            raise ImproperlyConfigured(f"PGQUEUE has no option {name!r}. {meant}")
    read = Settings(
        **{
            known[name].name: _checked(name, value, known[name].type)
            for name, value in given.items()
        }
    )
    if read.event_max_age is not None and read.event_max_age < read.event_retention:
        raise ImproperlyConfigured(
            f"PGQUEUE['EVENT_MAX_AGE'] = {shown(given['EVENT_MAX_AGE'])}: "
            f"it must be EVENT_RETENTION ({read.event_retention}) or more."
        )
    return read


def _checked(name: str, value: Any, kind: Any) -> Any:
    try:
        return _BY_NAME[name](value) if name in _BY_NAME else _CHECKS[kind](value)
    except (TypeError, ValueError) as error:
        seen = "…" if name in SECRET else shown(value)
        raise ImproperlyConfigured(f"PGQUEUE[{name!r}] = {seen}: {error}") from error


def _limit(value: Any) -> timedelta | None:
    return None if value is None else as_duration(value)


def _backoff(value: Any) -> Backoff:
    backoff = as_backoff(value)
    declare(backoff)
    return backoff


def _retention(value: Any) -> Retention:
    return {**_for_a_month(), **as_retention(value)}


def _feed(value: Any) -> str:
    if value not in FEEDS:
        raise ValueError(f"it must be one of {', '.join(map(repr, FEEDS))}.")
    return str(value)


def _release(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise TypeError("it must be text, in one line.")
    if len(value) > LONGEST_RELEASE:
        raise ValueError(f"it must have {LONGEST_RELEASE} characters or fewer.")
    return value


def _tenant(value: Any) -> str | None:
    if value is None:
        return None
    path = as_path(value)
    if not all(part.isidentifier() for part in path.split(".")):
        raise ValueError('it must be an import path such as "shop.tenants".')
    return path


def _base_url(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("it must be text.")
    parts = urlsplit(value)
    if value and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query):
        raise ValueError('it must be an address such as "https://shop.example".')
    return value


def _token(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or not value.isascii():
        raise TypeError("it must be text, in printable ASCII.")
    if 0 < len(value) < SHORTEST_TOKEN:
        raise ValueError(f"it must have {SHORTEST_TOKEN} characters or more.")
    return value


def _encryption_keys(value: Any) -> Keys:
    if not isinstance(value, list | tuple):
        raise TypeError("it must be a list of keys.")
    for number, key in enumerate(value, start=1):
        if not isinstance(key, str) or not _is_key(key):
            raise ValueError(
                f"number {number} is no key: 32 bytes in URL-safe base64, as made by "
                "cryptography.fernet.Fernet.generate_key().decode()."
            )
    if len(set(value)) < len(value):
        raise ValueError("a key is there twice.")
    return tuple(value)


def _is_key(text: str) -> bool:
    try:
        return len(b64decode(text, altchars="-_", validate=True)) == KEY_BYTES
    except ValueError:
        return False


_BY_NAME: Mapping[str, Callable[[Any], Any]] = {
    "THREADS": partial(as_count, most=MOST_THREADS),
    "FEED": _feed,
    "REPLICATION_SLOT": as_slot,
    "PUBLICATION": as_identifier,
    "BASE_URL": _base_url,
    "TENANT": _tenant,
    "TENANT_METRICS": partial(as_count, least=0, most=MOST_TENANTS),
    "METRICS_TOKEN": _token,
    "RELEASE": _release,
    "RUN_LOGS": as_level,
    "ENCRYPTION_KEYS": _encryption_keys,
}
_CHECKS = {
    str: as_channel,
    bool: as_flag,
    int: as_count,
    timedelta: as_duration,
    timedelta | None: _limit,
    Backoff: _backoff,
    Retention: _retention,
    Schedules: as_entries,
    Endpoints: as_endpoints,
    Fields: as_fields,
}


def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting == "PGQUEUE":
        settings.cache_clear()


setting_changed.connect(_forget, dispatch_uid="pgqueue.conf")
