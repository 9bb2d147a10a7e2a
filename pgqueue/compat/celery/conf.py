"""Celery's settings: the effect of each, or the reason why it has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from datetime import timedelta
from importlib import import_module
from types import ModuleType
from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from pgqueue.compat.celery import absent
from pgqueue.values.error_words import shown
from pgqueue.values.names import as_channel
from pgqueue.values.number_checks import as_duration, as_flag

NAMESPACE = "CELERY"
DAY = timedelta(days=1)
FIXED = ("name", "run", "function")
"""Attributes that annotations must not change: messages and workers find a task by them."""


def _limit(value: Any) -> timedelta | None:
    return None if value is None else as_duration(value)


def _queue(value: Any) -> str | None:
    return None if value is None else as_channel(value)


def _expiry(value: Any) -> timedelta | None:
    return as_duration(value) if value else None  # as in Celery, 0 means no expiry


def _anything(value: Any) -> Any:
    return value


def _annotations(value: Any) -> Any:
    for each in value if isinstance(value, list | tuple) else [value or {}]:
        if not isinstance(each, Mapping):
            raise TypeError("it must be a dict of attributes by task names, or a list of dicts.")
        for task, attributes in each.items():
            if not isinstance(attributes, Mapping):
                raise TypeError(f"{task}: it must be a dict of attributes.")
            for name in attributes:
                if name.startswith("@"):
                    raise ValueError(f"{name}: define it in the class of the task, as base=….")
                if name in FIXED:
                    raise ValueError(f"annotations must not change {name} of {task}.")
    return value


def _dict(value: Any) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("it must be a dict.")
    return dict(value) if not isinstance(value, dict) else value


def _names(value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(each, str) for each in names):
        raise TypeError("it must be a list of module names.")
    return names


def _json(value: Any) -> str:
    if value != "json":
        raise ValueError(
            "arguments and results are JSON, with dates, Decimal, UUID, dataclasses and model "
            "instances by type hints. Pass ids in the place of objects that need pickle."
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
    "task_annotations": (None, _annotations),
    "task_time_limit": (None, _limit),
    "task_soft_time_limit": (None, _limit),
    "task_ignore_result": (False, as_flag),
    "task_track_started": (False, as_flag),
    "task_serializer": ("json", _json),
    "result_serializer": ("json", _json),
    "accept_content": (("json",), _accepted),
    "result_accept_content": (None, lambda value: value and _accepted(value)),
    "result_expires": (DAY, _expiry),
    "beat_schedule": ({}, _dict),
    "timezone": (None, _anything),
    "imports": ((), _names),
    "include": ((), _names),
}
"""Settings with an effect: the default, and the function that checks and converts a value."""

BACKEND = "there is no result backend: results are rows of PGQUEUE['DATABASE']"
NEEDLESS: Mapping[str, str] = {
    "broker_": "messages are rows of PGQUEUE['DATABASE']",
    "result_": "results are rows of PGQUEUE['DATABASE'], kept for PGQUEUE['RETENTION']",
    "worker_": "`manage.py runworker` has options for its threads and processes",
    "beat_": "workers enqueue scheduled tasks",
    "event_": absent.EVENTS,
    "control_": "there is no remote control of workers",
    "redis_": "there is no Redis",
    **dict.fromkeys((
        "arangodb_", "azureblockblob_", "cache_", "cassandra_", "cosmosdbsql_", "couchbase_",
        "database_", "elasticsearch_", "gcs_", "mongodb_", "override_backends", "s3_",
    ), BACKEND),
    "security_": "messages are rows of your database",
    "task_acks_": "a message is settled when its task has ended",
    "task_allow_error_cb_on_chord_header": "an errback belongs to the tasks to which it is linked",
    "task_reject_on_worker_lost": "a message of a dead worker is run again",
    "task_retry_on_worker_lost": "a message of a dead worker is run again",
    "task_queues": "channels need no declaration",
    "task_create_missing_queue": "channels need no declaration",
    "task_queue_": "channels need no declaration",
    "task_default_": "there are no exchanges",
    "task_publish_": "a message is stored in your transaction, or an error is raised",
    "task_send_sent_event": absent.EVENTS,
    "task_store_": "errors are always kept",
    "task_remote_tracebacks": "tracebacks are always kept",
    "task_repr_maxlevels": "the log has no arguments",
    "task_compression": "PostgreSQL compresses long values",
    "task_protocol": "there is no protocol",
    "task_inherit_parent_priority": "a task's priority is its own",
    "enable_utc": "instants are stored in UTC",
    "deduplicate_successful_tasks": "a message ends once",
}  # fmt: skip
"""Settings without effect: the beginnings of their names, and the reasons."""


NAMES = frozenset(
    """
    accept_content arangodb_backend_settings azureblockblob_base_path
    azureblockblob_connection_timeout azureblockblob_container_name azureblockblob_read_timeout
    azureblockblob_retry_increment_base azureblockblob_retry_initial_backoff_sec
    azureblockblob_retry_max_attempts beat_cron_starting_deadline beat_enable_remote_control
    beat_max_loop_interval beat_remote_control_max_tick_age beat_schedule beat_schedule_filename
    beat_scheduler beat_sync_every broker_channel_error_retry broker_connection_max_retries
    broker_connection_retry broker_connection_retry_on_startup broker_connection_timeout
    broker_failover_strategy broker_heartbeat broker_heartbeat_checkrate broker_host
    broker_login_method broker_native_delayed_delivery_queue_type broker_password
    broker_pool_acquire_timeout broker_pool_limit broker_port broker_read_url broker_transport
    broker_transport_options broker_url broker_use_ssl broker_user broker_vhost broker_write_url
    cache_backend cache_backend_options cassandra_auth_kwargs cassandra_auth_provider
    cassandra_bundle_path cassandra_entry_ttl cassandra_keyspace cassandra_options
    cassandra_port cassandra_read_consistency cassandra_servers cassandra_table
    cassandra_write_consistency control_exchange control_queue_durable control_queue_exclusive
    control_queue_expires control_queue_ttl cosmosdbsql_collection_name
    cosmosdbsql_consistency_level cosmosdbsql_database_name cosmosdbsql_max_retry_attempts
    cosmosdbsql_max_retry_wait_time couchbase_backend_settings database_create_tables_at_setup
    database_engine_callback database_engine_options database_short_lived_sessions
    database_table_names database_table_schemas database_url elasticsearch_max_retries
    elasticsearch_retry_on_timeout elasticsearch_save_meta_as_text elasticsearch_timeout
    enable_utc event_exchange event_queue_durable event_queue_exclusive event_queue_expires
    event_queue_prefix event_queue_ttl event_serializer gcs_base_path gcs_bucket gcs_project
    gcs_ttl imports include mongodb_backend_settings redis_backend_use_ssl redis_db redis_host
    redis_max_connections redis_password redis_port redis_retry_on_timeout
    redis_socket_connect_timeout redis_socket_keepalive redis_socket_timeout redis_username
    result_accept_content result_backend result_backend_always_retry
    result_backend_base_sleep_between_retries_ms result_backend_max_retries
    result_backend_max_sleep_between_retries_ms result_backend_transport_options
    result_cache_max result_chord_expires result_chord_join_timeout result_chord_retry_interval
    result_compression result_exchange result_exchange_type result_expires result_extended
    result_failure_expires result_persistent result_serializer s3_access_key_id s3_base_path
    s3_bucket s3_endpoint_url s3_region s3_secret_access_key security_cert_store
    security_certificate security_digest security_key security_key_password task_acks_late
    task_acks_on_failure task_acks_on_failure_or_timeout task_acks_on_timeout
    task_allow_error_cb_on_chord_header task_always_eager task_annotations task_compression
    task_create_missing_queue_exchange_type task_create_missing_queue_type
    task_create_missing_queues task_default_delivery_mode task_default_exchange
    task_default_exchange_type task_default_priority task_default_queue task_default_queue_type
    task_default_rate_limit task_default_routing_key task_eager_propagates task_ignore_result
    task_inherit_parent_priority task_protocol task_publish_retry task_publish_retry_policy
    task_queue_max_priority task_queues task_reject_on_worker_lost task_remote_tracebacks
    task_repr_maxlevels task_retry_on_worker_lost task_routes task_send_sent_event
    task_serializer task_soft_time_limit task_store_eager_result
    task_store_errors_even_if_ignored task_time_limit task_track_started timezone worker_agent
    worker_autoscaler worker_cancel_long_running_tasks_on_connection_loss worker_concurrency
    worker_consumer worker_deduplicate_successful_tasks worker_detect_quorum_queues
    worker_direct worker_disable_prefetch worker_disable_rate_limits
    worker_enable_prefetch_count_reduction worker_enable_remote_control
    worker_enable_soft_shutdown_on_idle worker_eta_task_limit worker_hijack_root_logger
    worker_log_color worker_log_datefmt worker_log_format worker_lost_wait
    worker_max_memory_per_child worker_max_tasks_per_child worker_pool worker_pool_putlocks
    worker_pool_restarts worker_pool_start_method worker_prefetch_multiplier
    worker_proc_alive_timeout worker_redirect_stdouts worker_redirect_stdouts_level
    worker_send_task_events worker_soft_shutdown_timeout worker_state_db worker_task_log_datefmt
    worker_task_log_format worker_timer worker_timer_precision
    deduplicate_successful_tasks override_backends result_backend_thread_safe
    """.split()  # noqa: SIM905
)
"""All settings of Celery's. A project may have settings of its own with the same beginnings."""


def why_needless(name: str) -> str | None:
    """Return the reason why a setting has no effect; None: it has an effect, or is unknown."""
    if name in TAKEN or name not in NAMES:
        return None
    return next((why for start, why in NEEDLESS.items() if name.startswith(start)), None)


OLD: Mapping[str, str] = {
    "CELERYBEAT_": "beat_",
    "CELERYD_TASK_TIME_LIMIT": "task_time_limit",
    "CELERYD_TASK_SOFT_TIME_LIMIT": "task_soft_time_limit",
    "CELERYD_WORKER_": "worker_",
    "CELERYD_": "worker_",
    "CELERY_RESULT_DBURI": "database_url",
    "CELERY_RESULT_DB_SHORT_LIVED_SESSIONS": "database_short_lived_sessions",
    "CELERY_RESULT_DB_TABLENAMES": "database_table_names",
    "CELERY_RESULT_ENGINE_OPTIONS": "database_engine_options",
    "CELERY_EAGER_PROPAGATES_EXCEPTIONS": "task_eager_propagates",
    "CELERY_TASK_RESULT_EXPIRES": "result_expires",
    "CELERY_MAX_CACHED_RESULTS": "result_cache_max",
    "CELERY_MESSAGE_COMPRESSION": "task_compression",
    "CELERY_SEND_TASK_SENT_EVENT": "task_send_sent_event",
    "CELERY_SEND_EVENTS": "worker_send_task_events",
    "CELERY_DISABLE_RATE_LIMITS": "worker_disable_rate_limits",
    "CELERY_ENABLE_REMOTE_CONTROL": "worker_enable_remote_control",
    "CELERY_REDIRECT_STDOUTS": "worker_redirect_stdouts",
    "BROKER_": "broker_",
}
"""Beginnings of old names, in capitals without a namespace, and of today's names."""


def name_of_old(name: str) -> str | None:
    """Return today's name of a setting that is written in capitals; None: it is not Celery's."""
    for start, now in OLD.items():
        if name.startswith(start):
            return now + name.removeprefix(start).lower()
    if not name.startswith(f"{NAMESPACE}_"):
        return None
    known = name.removeprefix(f"{NAMESPACE}_").lower()
    of_tasks = f"task_{known}"
    for each in (known, of_tasks):
        if each in NAMES:
            return each
    return known


class _Overrides:
    """Counts the overrides of settings by tests. An app may have any namespace, or none."""

    count = 0

    def note(self, **kwargs: Any) -> None:
        self.count += 1


_overrides = _Overrides()
setting_changed.connect(_overrides.note)

Version = tuple[int, int]


class Conf:
    """The settings of an app: its own values override the values of its source.

    Names are in lower case, as attributes or as keys.

    Raises:
        ImproperlyConfigured: (on reading a setting) its value is invalid; the message names the
            reason.
    """

    _own: dict[str, Any]
    _defaults: dict[str, Any]
    """Copies: a project may add to beat_schedule in place."""
    _source: Any
    _prefix: str
    _known: tuple[Version | None, dict[str, Any]]
    _spelled: dict[str, str]
    _touched: int

    def __init__(self, source: Any = None, namespace: str | None = None) -> None:
        vars(self).update(_own={}, _touched=0, _known=(None, {}), _spelled={})
        vars(self)["_defaults"] = {name: copy(default) for name, (default, _) in TAKEN.items()}
        self.read_from(source, namespace)

    def read_from(self, source: Any, namespace: str | None) -> None:
        """Set the source of the other values: an object, a dict, or an import path."""
        if isinstance(source, str):
            source = _imported(source)
        vars(self).update(_source=source, _prefix=f"{namespace}_" if namespace else "")
        self.touch()

    def touch(self) -> None:
        """Note that settings may have changed."""
        vars(self)["_touched"] += 1

    @property
    def version(self) -> Version:
        """A value that changes whenever a setting may have changed."""
        return self._touched, _overrides.count

    def __getattr__(self, name: str) -> Any:
        if name not in TAKEN:
            return self._without_effect(name)
        default = self._defaults[name]
        value = self.given().get(name, default)
        try:
            return value if value is default else TAKEN[name][1](value)
        except (TypeError, ValueError) as error:
            raise ImproperlyConfigured(f"{self.spelled(name)} = {shown(value)}: {error}") from error

    def _without_effect(self, name: str) -> Any:
        """Return the value that the project gave a setting without effect."""
        if not name.startswith("_") and name in (given := self.given()):
            return given[name]
        raise AttributeError(
            f"{name} is not set, and has no effect here: {why}."
            if (why := why_needless(name))
            else f"{name!r} is no setting of Celery's, and is not set."
        )

    def __setattr__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __contains__(self, name: object) -> bool:
        return name in self.given()

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a setting that the project has set, or the default."""
        return getattr(self, name) if name in self.given() else default

    def update(self, *given: Mapping[str, Any], **settings: Any) -> None:
        """Set several, also a project's own. `manage.py check` reports names unknown to Celery."""
        for each in (*given, settings):
            self._own.update(each)
        self.touch()

    def given(self) -> dict[str, Any]:
        """Return all values set here or in the source, by their names in lower case.

        The source is read once for each version, because every call of a task needs the values.
        """
        version, (known, found) = self.version, self._known
        if version != known:
            read = list(self._from_source())
            # If a setting is given by its old and its new name, the new name counts.
            read.sort(key=lambda each: each[1].isupper() and not self._prefix, reverse=True)
            found = {**{name: value for name, _, value in read}, **self._own}
            spelled = {name: spelling for name, spelling, _ in read}
            vars(self).update(_known=(version, found), _spelled=spelled)
        return found

    def spelled(self, name: str) -> str:
        """Return the name of a setting as the source spells it."""
        self.given()
        return self._spelled.get(name) or (
            f"{self._prefix}{name}".upper() if self._prefix else name
        )

    def _from_source(self) -> Iterator[tuple[str, str, Any]]:
        """Yield the name of each setting, its spelling in the source, and its value."""
        source = self._source
        if source is None:
            return
        for spelled in source if isinstance(source, Mapping) else dir(source):
            if isinstance(spelled, str) and (name := self._name(spelled)):
                value = source[spelled] if isinstance(source, Mapping) else getattr(source, spelled)
                if self._prefix or name in TAKEN or _is_setting(source, spelled, value):
                    yield name, spelled, value

    def _name(self, spelled: str) -> str | None:
        """Return the setting's name for a spelling in the source; None: this is no setting."""
        if self._prefix:
            is_its = spelled.startswith(self._prefix)
            return spelled.removeprefix(self._prefix).lower() if is_its else None
        if spelled.startswith("_"):
            return None
        return spelled if spelled.islower() else name_of_old(spelled)


def _is_setting(source: Any, name: str, value: Any) -> bool:
    """Say whether a name without effect is a setting, and not an import or a function."""
    if why_needless(name) or name.isupper():
        return True
    of_settings = isinstance(source, Mapping | ModuleType | type)
    return of_settings and not callable(value) and not isinstance(value, ModuleType)


def of_django() -> Conf:
    """Return the Django settings that begin with CELERY_."""
    return Conf(django_settings, NAMESPACE)


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    if name:
        return getattr(import_module(module), name)
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        return import_string(path)
