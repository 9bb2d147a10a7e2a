"""The checks of `manage.py check`: the project's settings and its database."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.core.management import get_commands
from django.db import OperationalError, connections
from django.utils.connection import ConnectionDoesNotExist
from django.utils.module_loading import autodiscover_modules

from pgqueue.conf import settings
from pgqueue.engine import search_index
from pgqueue.exceptions import InvalidSchedule, InvalidTask
from pgqueue.tasks import encryption, registry, scheduling, tenants
from pgqueue.values.names import AT_START

OLDEST = 15
LOGICAL = "logical"
"""The wal_level with which the WAL can be followed."""


@register("pgqueue", AT_START)
def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Name the option of `PGQUEUE` that is invalid, or the database that is no PostgreSQL."""
    try:
        connection = connections[settings().database]
    except ImproperlyConfigured as error:
        return [Error(str(error), id="pgqueue.E001")]
    except ConnectionDoesNotExist:
        return [
            Error(
                f"PGQUEUE['DATABASE'] is {settings().database!r}, which DATABASES does not have.",
                hint=f"It has {', '.join(map(repr, connections))}.",
                id="pgqueue.E002",
            )
        ]
    if connection.vendor != "postgresql":
        return [
            Error(
                f"The queue's database {connection.alias!r} is {connection.display_name}.",
                hint="pgqueue needs PostgreSQL 15 or newer: "
                "name another alias of DATABASES in PGQUEUE['DATABASE'].",
                id="pgqueue.E003",
            )
        ]
    return []


@register("pgqueue")
def check_commands(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Say when another app's `runworker` is run in place of ours."""
    owner = get_commands().get("runworker")
    if owner in (None, "pgqueue"):
        return []
    return [
        Warning(
            f"`manage.py runworker` is the command of {owner}, not of pgqueue.",
            hint="Run `manage.py pgqueue_worker`, which is the same, "
            "or list pgqueue before it in INSTALLED_APPS.",
            id="pgqueue.W001",
        )
    ]


@register("pgqueue", AT_START)
def check_encryption(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Name the encrypted tasks of a project that has no key, or lacks the library."""
    autodiscover_modules("tasks")
    named = sorted(task.name for task in registry.each() if task.encrypted)
    try:
        keys = settings().encryption_keys
    except ImproperlyConfigured:
        return []  # said above
    if not named:
        return []
    tasks = named[0] if len(named) == 1 else f"{named[0]} and {len(named) - 1} more"
    if not keys:
        return [
            Error(
                f"{tasks} is to be encrypted, and PGQUEUE['ENCRYPTION_KEYS'] has no key.",
                hint="Make one: python -c 'from cryptography.fernet import Fernet; "
                "print(Fernet.generate_key().decode())'",
                id="pgqueue.E010",
            )
        ]
    if not encryption.is_installed():
        return [Error(f"{tasks} is to be encrypted.", hint=encryption.INSTALL, id="pgqueue.E011")]
    return []


@register("pgqueue", AT_START)
def check_tenants(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check the functions that `PGQUEUE["TENANT"]` names."""
    try:
        if settings().tenant is None:
            return []
    except ImproperlyConfigured:
        return []  # said above
    try:
        tenants.functions()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="pgqueue.E012")]
    return []


@register("pgqueue", AT_START)
def check_schedules(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Say which schedule in code names no time, no task, or arguments that this can't take."""
    try:
        for alias in {settings().database, *(task.alias for task in registry.each())}:
            scheduling.declared(alias)
    except ImproperlyConfigured:
        return []  # said above
    except (InvalidSchedule, InvalidTask) as error:
        return [Error(str(error), id="pgqueue.E008")]
    return []


@register(Tags.database, "pgqueue")
def check_server(
    app_configs: Sequence[AppConfig] | None,
    databases: Sequence[str] | None = None,
    **kwargs: Any,
) -> list[CheckMessage]:
    """Say when the queue's PostgreSQL is too old."""
    try:
        connection = connections[settings().database]
    except (ImproperlyConfigured, ConnectionDoesNotExist):
        return []
    if connection.alias not in (databases or []) or connection.vendor != "postgresql":
        return []
    try:
        connection.ensure_connection()
    except OperationalError:
        return []  # the code that needs it will raise
    version = connection.connection.info.server_version // 10000
    if version >= OLDEST:
        return _check_wal(connection) + _check_search(connection)
    return [
        Error(
            f"The queue's database {connection.alias!r} is PostgreSQL {version}.",
            hint=f"pgqueue needs PostgreSQL {OLDEST} or newer.",
            id="pgqueue.E004",
        )
    ]


def _check_search(connection: Any) -> list[CheckMessage]:
    """Report a search index that PostgreSQL does not use, since it is incomplete."""
    return [
        Warning(
            f"The index {name} is incomplete, so searches do not use it.",
            hint="Run the migration with IndexSearch() again, or reverse it.",
            id="pgqueue.W002",
        )
        for name in search_index.invalid(connection)
    ]


def _check_wal(connection: Any) -> list[CheckMessage]:
    """Report a server whose WAL carries no events, although `FEED` is "wal"."""
    if not settings().fed_by:
        return []
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('wal_level')")
        (level,) = cursor.fetchone()
    if level == LOGICAL:
        return []
    return [
        Error(
            f"PGQUEUE['FEED'] is 'wal', and the server of {connection.alias!r} has the wal_level "
            f"{level!r}.",
            hint="Set wal_level = logical in postgresql.conf, and restart the server.",
            id="pgqueue.E009",
        )
    ]
