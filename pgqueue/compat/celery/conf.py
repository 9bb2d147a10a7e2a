"""Celery's settings: what each does here, or why it does nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from importlib import import_module
from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from pgqueue.names import as_channel
from pgqueue.quantities import as_duration, as_flag
from pgqueue.spelling import hint, shown

NAMESPACE = "CELERY"
DAY = timedelta(days=1)


def _limit(value: Any) -> timedelta | None:
    return None if value is None else as_duration(value)


def _queue(value: Any) -> str | None:
    return None if value is None else as_channel(value)


def _anything(value: Any) -> Any:
    return value


def _dict(value: Any) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("it must be a dict.")
    return dict(value) if not isinstance(value, dict) else value


def _names(value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(each, str) for each in names):
        raise TypeError("it must be a list of modules' names.")
    return names


def _json(value: Any) -> str:
    if value != "json":
        raise ValueError(
            "arguments and results are JSON, with dates, Decimal, UUID, dataclasses and model "
            "instances by type hints. Pass ids in the place of objects that only pickle can hold."
        )
    return "json"


def _accepted(value: Any) -> tuple[str, ...]:
    accepted = _names(value)
    if not {"json", "application/json"} & set(accepted):
        _json(accepted)
    return accepted


TAKEN: Mapping[str, tuple[Any, Callable[[Any], Any]]] = {
    "task_always_eager": (False, as_flag),
    "task_eager_propagates": (False, as_flag),
    "task_default_queue": (None, _queue),
    "task_default_priority": (None, _anything),
    "task_default_rate_limit": (None, _anything),
    "task_routes": (None, _anything),
    "task_annotations": (None, _anything),
    "task_time_limit": (None, _limit),
    "task_soft_time_limit": (None, _limit),
    "task_ignore_result": (False, as_flag),
    "task_track_started": (False, as_flag),
    "task_serializer": ("json", _json),
    "result_serializer": ("json", _json),
    "accept_content": (("json",), _accepted),
    "result_accept_content": (None, lambda value: value and _accepted(value)),
    "result_expires": (DAY, _limit),
    "beat_schedule": ({}, _dict),
    "timezone": (None, _anything),
    "imports": ((), _names),
    "include": ((), _names),
}
"""What has an effect: the default, and what returns the value in the form that is used."""

NEEDLESS: Mapping[str, str] = {
    "broker_": "messages are rows of PGQUEUE['DATABASE']",
    "result_": "results are rows of PGQUEUE['DATABASE'], kept as PGQUEUE['RETENTION'] says",
    "worker_": "`manage.py runworker` has options for its threads and processes",
    "beat_": "workers enqueue what is scheduled",
    "event_": "the admin, metrics and signals take the place of events",
    "control_": "there is no remote control of workers",
    "redis_": "there is no Redis",
    "cache_": "there is no result backend",
    "database_": "there is no result backend",
    "security_": "messages are rows of your database",
    "task_acks_": "a message is settled when its task has ended",
    "task_reject_on_worker_lost": "what a dead worker ran is run again",
    "task_queues": "channels need no declaration",
    "task_create_missing_queues": "channels need no declaration",
    "task_queue_": "channels need no declaration",
    "task_default_": "there are no exchanges",
    "task_publish_": "a message is stored in your transaction, or an error is raised",
    "task_send_sent_event": "the admin, metrics and signals take the place of events",
    "task_store_": "errors are always kept",
    "task_remote_tracebacks": "tracebacks are always kept",
    "task_compression": "PostgreSQL compresses what is long",
    "task_protocol": "there is no protocol",
    "task_inherit_parent_priority": "a task's priority is its own",
    "enable_utc": "instants are stored in UTC",
    "deduplicate_successful_tasks": "a message ends once",
}
"""What has none, by the beginnings of the names, and why."""


def why_needless(name: str) -> str | None:
    """Return why a setting has no effect; None: it has one, or is unknown."""
    if name in TAKEN:
        return None
    return next((why for start, why in NEEDLESS.items() if name.startswith(start)), None)


class _Overrides:
    """Counts how often tests have overridden a setting of Celery's."""

    count = 0

    def note(self, *, setting: str, **kwargs: Any) -> None:
        if setting.startswith(NAMESPACE):
            self.count += 1


_overrides = _Overrides()
setting_changed.connect(_overrides.note)

Version = tuple[int, int]


class Conf:
    """The settings of an app: those given to it, before those of what it was configured from.

    Names are in lower case, as attributes or as keys.

    Raises:
        ImproperlyConfigured: (where one is read) its value can't be; the message says why.
    """

    _own: dict[str, Any]
    _source: Any
    _prefix: str
    _known: tuple[Version | None, dict[str, Any]]
    _touched: int

    def __init__(self, source: Any = None, namespace: str | None = None) -> None:
        vars(self).update(_own={}, _touched=0, _known=(None, {}))
        self.read_from(source, namespace)

    def read_from(self, source: Any, namespace: str | None) -> None:
        """Take what was not set here from an object, a dict, or what a string names."""
        if isinstance(source, str):
            source = _imported(source)
        vars(self).update(_source=source, _prefix=f"{namespace}_" if namespace else "")
        self.touch()

    def touch(self) -> None:
        """Note that settings may have changed."""
        vars(self)["_touched"] += 1

    @property
    def version(self) -> Version:
        """Changes whenever a setting may have changed."""
        return self._touched, _overrides.count

    def __getattr__(self, name: str) -> Any:
        if name not in TAKEN:
            raise AttributeError(f"pgqueue has no setting {name!r} of Celery's.")
        default, check = TAKEN[name]
        value = self.given().get(name, default)
        try:
            return value if value is default else check(value)
        except (TypeError, ValueError) as error:
            raise ImproperlyConfigured(f"{self.spelled(name)} = {shown(value)}: {error}") from error

    def __setattr__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __contains__(self, name: object) -> bool:
        return name in self.given()

    def get(self, name: str, default: Any = None) -> Any:
        """Return a setting that was given, or the default."""
        return getattr(self, name) if name in self.given() and name in TAKEN else default

    def update(self, *given: Mapping[str, Any], **settings: Any) -> None:
        """Set several.

        Raises:
            ImproperlyConfigured: Celery has none of this name.
        """
        for each in (*given, settings):
            for name, value in each.items():
                if name not in TAKEN and why_needless(name) is None:
                    raise ImproperlyConfigured(
                        f"There is no setting {name!r} of Celery's. {hint(name, TAKEN)}"
                    )
                self._own[name] = value
        self.touch()

    def given(self) -> dict[str, Any]:
        """Return what was set, here or in the source, by its name in lower case.

        It is looked up once for each version: every call of a task asks.
        """
        version, (known, found) = self.version, self._known
        if version != known:
            found = {**dict(self._from_source()), **self._own}
            vars(self)["_known"] = version, found
        return found

    def spelled(self, name: str) -> str:
        """Return how a setting is named in the source."""
        return f"{self._prefix}{name}".upper() if self._prefix else name

    def _from_source(self) -> Iterator[tuple[str, Any]]:
        source = self._source
        if source is None:
            return
        for name in source if isinstance(source, Mapping) else dir(source):
            if not isinstance(name, str) or not name.startswith(self._prefix):
                continue
            known = name.removeprefix(self._prefix)
            known = known.lower() if self._prefix else known
            if known in TAKEN or (self._prefix and known):
                yield known, source[name] if isinstance(source, Mapping) else getattr(source, name)


def of_django() -> Conf:
    """Return the settings that begin with CELERY_."""
    return Conf(django_settings, NAMESPACE)


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    found = import_module(module)
    return getattr(found, name) if name else found
