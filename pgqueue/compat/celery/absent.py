"""What Celery has and this has not: importing it is an error that says what to do instead."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib.abc import MetaPathFinder
from typing import Any

from pgqueue.exceptions import PGQueueError

PACKAGE = "pgqueue.compat.celery."

WORKER = "`manage.py runworker` is the worker: use the signals, or handlers such as on_failure()"
STORE = "messages and results are rows of PGQUEUE['DATABASE']: use AsyncResult"
LOGGING = "configure Django's LOGGING; pgqueue.logs adds the task and the message to records"
SECURITY = "messages are rows of your database: its roles say who may read them"
EVENTS = "the admin, metrics and signals take the place of events"
APP = "import Celery, Task, shared_task and current_app from pgqueue.compat.celery"
HELPERS = "helpers of Celery's own are not taken over: use Python's or Django's"
RERUN = "what a dead worker ran is run again, by max_retries and without an error of this class"
SCHEDULES = (
    "a schedule is crontab(…), schedule(…), a timedelta or seconds. For other times let a frequent "
    "schedule start a task that enqueues another one by apply_async(eta=…)"
)
HEADERS = "apply_async(headers=…) or a receiver of before_task_publish adds to messages"
WARNING = "nothing warns of this here"

MODULES: Mapping[str, str] = {
    "app.*": APP,
    "apps": WORKER,
    "backends.*": STORE,
    "bin": "`manage.py` has the commands: runworker, pgqueue_list, pgqueue_health and others",
    "bootsteps": "the worker has no bootsteps: use signals such as worker_init and worker_ready",
    "bugreport": "`manage.py pgqueue_health` and `manage.py check` tell how it is",
    "concurrency": "`manage.py runworker` has --threads, --processes and --async",
    "contrib.testing.*": "tests use start_worker() of contrib.testing.worker, or pgqueue.testing",
    "contrib.*": (
        "a task that is to be aborted looks at `cancelled` of pgqueue's context, and "
        "AsyncResult.revoke() sets it; tests use pgqueue.testing, or task_always_eager"
    ),
    "events": EVENTS,
    "execute": "use app.send_task(), or delay() of the task",
    "fixups": "Django is always there: INSTALLED_APPS has `pgqueue`",
    "loaders": "config_from_object() reads settings, autodiscover_tasks() imports tasks",
    "local": APP,
    "log": LOGGING,
    "messaging": STORE,
    "platforms": WORKER,
    "security": SECURITY,
    "utils.*": HELPERS,
    "worker.*": WORKER,
}
"""Modules that are not here. "utils.*" is all others of a package that is here."""

NAMES: Mapping[str, Mapping[str, str]] = {
    "_state": dict.fromkeys(
        ("connect_on_app_finalize", "default_app", "get_current_app_or_default", "set_default_app"),
        APP,
    ),
    "app": {
        "default_app": APP,
        "AppPickler": "an app is found by importing its module",
        "bugreport": MODULES["bugreport"],
        **dict.fromkeys(("enable_trace", "disable_trace"), APP),
        **dict.fromkeys(("push_current_task", "pop_current_task"), "current_task tells what runs"),
    },
    "beat": dict.fromkeys(
        (
            *("BeatPidbox", "EmbeddedService", "PersistentScheduler", "ScheduleEntry"),
            *("SchedulingError", "Service"),
        ),
        "there is no beat: workers enqueue what beat_schedule says, and the admin adds to it",
    ),
    "canvas": dict.fromkeys(("GroupStampingVisitor", "StampingVisitor"), HEADERS),
    "exceptions": {
        "AlreadyRegistered": "a task takes the place of another one of its name",
        **dict.fromkeys(("BackendError", "BackendGetMetaError", "BackendStoreError"), STORE),
        "CeleryCommandException": MODULES["bin"],
        **dict.fromkeys(
            (
                *("AlwaysEagerIgnored", "CDeprecationWarning", "CPendingDeprecationWarning"),
                *("CeleryWarning", "DuplicateNodenameWarning", "DuplicateTaskNameWarning"),
                *("FixupWarning", "NotConfigured", "SecurityWarning"),
            ),
            WARNING,
        ),
        "InvalidTaskError": "pgqueue.exceptions.InvalidTask tells of tasks and calls that can't be",
        "QueueNotFound": "channels need no declaration",
        "SecurityError": SECURITY,
        "Terminated": "a run is cancelled, and TaskRevokedError tells of it",
        "WorkerLostError": RERUN,
        **dict.fromkeys(("WorkerShutdown", "WorkerTerminate"), "no task can stop the worker"),
        "reraise": "use `raise … from …`",
    },
    "result": {
        "ResultBase": "ask for AsyncResult or GroupResult",
        "denied_join_result": "a task that waits for others is an error in any case",
    },
    "schedules": {
        **dict.fromkeys(
            ("ParseException", "crontab_parser"),
            "pgqueue.exceptions.InvalidSchedule tells of what is no cron line",
        ),
    },
    "states": dict.fromkeys(
        ("precedence", "state"), "READY_STATES, EXCEPTION_STATES and others say what a state means"
    ),
    "app.trace": dict.fromkeys(
        (
            *("TraceInfo", "eager_trace_task", "reset_worker_optimizations", "trace_task"),
            *("setup_worker_optimizations", "trace_task_ret"),
        ),
        WORKER,
    ),
    "utils.time": dict.fromkeys(
        (
            *("LocalTimezone", "adjust_timestamp", "delta_resolution", "ffwd", "utcoffset"),
            *("weekday", "yearmonth"),
        ),
        HELPERS,
    ),
    "utils": dict.fromkeys(
        (
            *("LOG_LEVELS", "cached_property", "chunks", "gen_task_name", "gen_unique_id"),
            *("get_cls_by_name", "get_full_cls_name", "import_from_cwd", "instantiate", "memoize"),
            *("nodename", "nodesplit", "noop", "worker_direct"),
        ),
        HELPERS,
    ),
    "utils.log": dict.fromkeys(
        (
            *("ColorFormatter", "LOG_LEVELS", "LoggingProxy", "base_logger", "in_sighandler"),
            *("get_multiprocessing_logger", "mlevel", "reset_multiprocessing_logger"),
            *("set_in_sighandler", "task_logger", "worker_logger"),
        ),
        LOGGING,
    ),
}
"""Names that modules lack which are here."""


class Unsupported(PGQueueError, NotImplementedError):
    """This is not taken over from Celery: the message says what to do instead."""


class UnsupportedImport(Unsupported, ImportError):
    """A module or a name of Celery's is not taken over: the message says what to do instead."""


def names_of(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module, which says what takes the place of names it lacks."""
    of_celery = module.removeprefix(PACKAGE)

    def __getattr__(name: str) -> Any:
        if why := NAMES[of_celery].get(name):
            raise _error(f"{of_celery}.{name}", why)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__


class AbsentFinder(MetaPathFinder):
    """Finds no module, and says what takes the place of those that are not here."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Return that there is no other module of this name.

        Raises:
            Unsupported: it is one of Celery's.
        """
        if not fullname.startswith(PACKAGE):
            return
        name = fullname.removeprefix(PACKAGE)
        if why := MODULES.get(name) or MODULES.get(f"{name.rpartition('.')[0]}.*"):
            raise _error(name, why)


def _error(name: str, why: str) -> Exception:
    return UnsupportedImport(f"celery.{name} is not taken over: {why}.")


# The last one: it is asked for what no other finds.
sys.meta_path.append(AbsentFinder())
