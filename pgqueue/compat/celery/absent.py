"""Celery's modules and names without an equivalent: an import raises an error with advice."""

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
SECURITY = "messages are rows of your database: its roles limit the readers"
EVENTS = "the admin, metrics and signals take the place of events"
APP = "import Celery, Task, shared_task and current_app from pgqueue.compat.celery"
HELPERS = "helpers of Celery's own are not taken over: use Python's or Django's"
RERUN = "a message of a dead worker is run again, by max_retries and without an error of this class"
SCHEDULES = (
    "a schedule is crontab(…), schedule(…), a timedelta or seconds. For other times let a frequent "
    "schedule start a task that enqueues another one by apply_async(eta=…)"
)
HEADERS = "apply_async(headers=…) or a receiver of before_task_publish adds headers to messages"
WARNING = "nothing warns of this here"

MODULES: Mapping[str, str] = {
    "app.*": APP,
    "apps": WORKER,
    "backends.*": STORE,
    "bin": "`manage.py` has the commands: runworker, pgqueue_list, pgqueue_health and others",
    "bootsteps": "the worker has no bootsteps: use signals such as worker_init and worker_ready",
    "bugreport": "`manage.py pgqueue_health` and `manage.py check` report the state",
    "concurrency": "`manage.py runworker` has --threads, --processes and --async",
    "contrib.testing.*": "tests use start_worker() of contrib.testing.worker, or pgqueue.testing",
    "contrib.*": (
        "AsyncResult.revoke() sets `cancelled` of pgqueue's context, and the task has to check it; "
        "tests use pgqueue.testing, or task_always_eager"
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
"""Celery's modules without an equivalent. "utils.*" means all other modules of `utils`."""

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
        **dict.fromkeys(("push_current_task", "pop_current_task"), "use current_task"),
    },
    "beat": dict.fromkeys(
        (
            *("BeatPidbox", "EmbeddedService", "PersistentScheduler", "ScheduleEntry"),
            *("SchedulingError", "Service"),
        ),
        "there is no beat: workers enqueue the entries of beat_schedule; the admin adds others",
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
        "InvalidTaskError": "invalid tasks and calls raise pgqueue.exceptions.InvalidTask",
        "QueueNotFound": "channels need no declaration",
        "SecurityError": SECURITY,
        "Terminated": "a run is cancelled, and its result raises TaskRevokedError",
        "WorkerLostError": RERUN,
        **dict.fromkeys(("WorkerShutdown", "WorkerTerminate"), "no task can stop the worker"),
        "reraise": "use `raise … from …`",
    },
    "result": {
        "ResultBase": "ask for AsyncResult or GroupResult",
        "denied_join_result": "a task that waits for others raises an error in any case",
    },
    "schedules": {
        **dict.fromkeys(
            ("ParseException", "crontab_parser"),
            "an invalid cron line raises pgqueue.exceptions.InvalidSchedule",
        ),
    },
    "states": dict.fromkeys(
        ("precedence", "state"), "READY_STATES, EXCEPTION_STATES and others group the states"
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
"""Celery's names without an equivalent, by the modules that exist here."""


class Unsupported(PGQueueError, NotImplementedError):
    """A feature is not taken over from Celery: the message names the alternative."""


class UnsupportedImport(Unsupported, ImportError):
    """A module or a name of Celery's is not taken over: the message names the alternative."""


def names_of(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module: it names the alternative to a missing name."""
    of_celery = module.removeprefix(PACKAGE)

    def __getattr__(name: str) -> Any:
        if why := NAMES[of_celery].get(name):
            raise _error(f"{of_celery}.{name}", why)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__


class AbsentFinder(MetaPathFinder):
    """Refuses imports of Celery's other modules: its error names the alternative."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Return None, which means that this finder has no such module.

        Raises:
            Unsupported: Celery has a module of this name.
        """
        if not fullname.startswith(PACKAGE):
            return
        name = fullname.removeprefix(PACKAGE)
        if why := MODULES.get(name) or MODULES.get(f"{name.rpartition('.')[0]}.*"):
            raise _error(name, why)


def _error(name: str, why: str) -> Exception:
    return UnsupportedImport(f"celery.{name} is not taken over: {why}.")


# The last finder: Python asks it for modules that no other finder has found.
sys.meta_path.append(AbsentFinder())
