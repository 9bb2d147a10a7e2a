"""The app class `Celery`: an app declares tasks and holds their settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

from django.utils.module_loading import import_string
from django.utils.timezone import get_default_timezone

from pgqueue.compat.celery import absent, beat, current, declaring
from pgqueue.compat.celery.async_result import AsyncResult
from pgqueue.compat.celery.conf import Conf, of_django
from pgqueue.compat.celery.exceptions import Unsupported
from pgqueue.compat.celery.group_result import GroupResult, ResultSet
from pgqueue.compat.celery.inspecting import Inspect
from pgqueue.compat.celery.request import running_task
from pgqueue.compat.celery.running import CeleryTask, found
from pgqueue.compat.celery.signatures import Signature, signature
from pgqueue.compat.celery.task import Task
from pgqueue.exceptions import InvalidTask
from pgqueue.tasks import registry
from pgqueue.values.error_words import listed

WORKER = "`manage.py runworker` starts workers, which also enqueue scheduled tasks"
STORE = "messages and results are rows of PGQUEUE['DATABASE'], on Django's connection"
ABSENT: Mapping[str, str] = {
    "worker_main": WORKER,
    "start": WORKER,
    "Worker": WORKER,
    "WorkController": WORKER,
    "Beat": WORKER,
    "amqp": STORE,
    "backend": STORE,
    "broker_connection": STORE,
    "connection": STORE,
    "connection_for_read": STORE,
    "connection_for_write": STORE,
    "connection_or_acquire": STORE,
    "pool": STORE,
    "producer_or_acquire": STORE,
    "producer_pool": STORE,
    "events": absent.EVENTS,
    "log": absent.LOGGING,
    "loader": "`manage.py check` imports the declared modules",
    "steps": "the worker has no bootsteps: use the signals",
    "user_options": "`manage.py runworker` takes no options of a project's",
    "config_from_envvar": "config_from_object(os.environ[…]) does it",
    "annotations": "set CELERY_TASK_ANNOTATIONS",
    "bugreport": "`manage.py check` and `manage.py pgqueue_health` report the state",
    "config_from_cmdline": "config_from_object() takes a dict",
    "default_connection": STORE,
    "default_producer": STORE,
    "on_after_fork": "use worker_process_init, which is sent in each process",
    "select_queues": "`manage.py runworker --channel` does it",
    "setup_security": absent.SECURITY,
}
"""Attributes of Celery's apps without an equivalent, each with the alternative."""

REPLACED: Mapping[str, str] = {
    "amqp": STORE,
    "control": "app.control cancels messages, the admin does the rest",
    "events": absent.EVENTS,
    "fixups": "Django is always there: INSTALLED_APPS has `pgqueue`",
    "loader": ABSENT["loader"],
    "log": absent.LOGGING,
    "registry": "tasks are registered as they are declared",
    "tasks": "tasks are registered as they are declared",
}
"""Replaceable parts of Celery's apps, given as an argument or as a class's `…_cls`."""


class SetupHandlers:
    """Functions that are called once, before the app's schedules are read."""

    def __init__(self) -> None:
        self.connected: list[Callable[..., Any]] = []

    def connect(self, receiver: Any = None, **options: Any) -> Any:
        """Connect a function, also as a decorator."""

        def connect(receiver: Callable[..., Any]) -> Callable[..., Any]:
            self.connected.append(receiver)
            return receiver

        return connect if receiver is None else connect(receiver)

    def send(self, sender: Any) -> None:
        """Call the functions that were not called yet."""
        while self.connected:
            self.connected[0](sender=sender, source=None)
            self.connected.pop(0)


class Control:
    """Cancels messages and lists workers. No operation controls a single worker."""

    def revoke(self, task_id: Any, **options: Any) -> None:
        """Cancel messages, by their task_ids: one or a list."""
        for each in task_id if isinstance(task_id, list | tuple | set) else [task_id]:
            AsyncResult(each).revoke()

    def inspect(self, destination: Any = None, timeout: float = 1.0, **others: Any) -> Inspect:
        """Return an `Inspect`, which asks the rows of workers."""
        return Inspect(destination, timeout)

    def ping(self, destination: Any = None, timeout: float = 1.0, **others: Any) -> list[Any]:
        """Return the workers that are alive."""
        found = self.inspect(destination).ping() or {}
        return [{name: answer} for name, answer in found.items()]

    def __getattr__(self, name: str) -> NoReturn:
        raise Unsupported(
            f"control.{name}: workers aren't controlled one by one. The admin, `manage.py "
            "pgqueue_channel` and pgqueue.Channel pause, limit, purge and inspect channels."
        )


class Celery:
    """An app: it declares tasks, and its settings hold for them.

    Args:
        main: its name.
        task_cls: the class of its tasks, or the import path of the class.
        set_as_current: whether its settings hold for shared tasks, too.
        autofinalize: without effect: tasks are made as they are declared.
        strict_typing: whether calls that don't fit their function are refused: see `Task.typing`.
        changes, others: settings. A broker and a backend have no effect.

    Raises:
        Unsupported: an argument replaces a part of Celery's that does not exist here, for
            example the loader.
    """

    AsyncResult = AsyncResult
    GroupResult = GroupResult
    ResultSet = ResultSet

    task_cls: Any = None
    """The class of its tasks, or the import path of the class."""

    def __init__(
        self,
        main: str | None = None,
        *,
        task_cls: Any = None,
        set_as_current: bool = True,
        config_source: Any = None,
        namespace: str | None = None,
        include: Any = None,
        autofinalize: bool = True,
        strict_typing: bool = True,
        changes: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> None:
        self.main = main
        _check_parts(type(self), others)
        self.strict_typing = strict_typing
        self.conf = Conf(config_source, namespace)
        self.on_configure = SetupHandlers()
        self.on_after_configure = SetupHandlers()
        self.on_after_finalize = SetupHandlers()
        self.control = Control()
        self.task_cls = task_cls or self.task_cls
        given = {
            SHORT.get(name, name): value for name, value in {**(changes or {}), **others}.items()
        }
        self.conf.update({name: each for name, each in given.items() if each is not None})
        if include:
            self.conf.update(include=include)
        if set_as_current:
            self.set_current()
        self.on_init()

    def on_init(self) -> None:
        """Do nothing. A subclass may act here when an app is made."""

    def __repr__(self) -> str:
        return f"<Celery {self.main}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name in ABSENT:
            raise Unsupported(f"app.{name}: {ABSENT[name]}.")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def set_current(self) -> None:
        """Make this app the current app: its settings hold for shared tasks.

        Raises:
            InvalidTask: the app has its own task class or names, and shared tasks were already
                declared without them.
        """
        self._check_shared()
        if self in current.apps:
            current.apps.remove(self)
        current.apps.append(self)

    set_default = set_current

    def _check_shared(self) -> None:
        """Refuse an own task class or own names if shared tasks were declared without them."""
        own = type(self)
        names = own.gen_task_name is not Celery.gen_task_name
        if not (names or self.task_cls or own.Task is not Celery.Task):
            return
        missed = [name for name, app in current.shared if app is not self]
        if missed:
            raise InvalidTask(
                f"{self} has a class or names of its own for tasks, but these shared tasks were "
                f"declared before: {listed(missed)}. Import its module first: in the __init__.py "
                "of the project's package."
            )

    def config_from_object(
        self,
        obj: Any,
        silent: bool = False,
        force: bool = False,
        namespace: str | None = None,
    ) -> None:
        """Take settings from an object, or from an import path: "django.conf:settings".

        Args:
            namespace: the prefix of the names: "CELERY".
        """
        try:
            self.conf.read_from(obj, namespace)
        except ImportError:
            if not silent:
                raise

    def add_defaults(self, settings: Mapping[str, Any]) -> None:
        """Set the settings that have no value yet."""
        given = self.conf.given()
        self.conf.update({name: each for name, each in settings.items() if name not in given})

    def autodiscover_tasks(
        self,
        packages: Any = None,
        related_name: str | None = "tasks",
        force: bool = False,
    ) -> None:
        """Let workers import a module of each package, if it exists; None: of each Django app.

        Args:
            packages: names, or a function that returns them.
            force: import the modules now.
        """
        current.discovery.add(packages, related_name)
        if force:
            current.discovery.import_all()

    def task(self, *args: Any, **options: Any) -> Any:
        """Make a function a task: `@app.task`, or `@app.task(bind=True, …)`.

        Raises:
            InvalidTask: an option is invalid, or the function is not at the top of its module.
            Unsupported: an option is not taken over from Celery.
        """
        return _decorated(self, args, options)

    def register_task(self, task: Any, **options: Any) -> Any:
        """Register a class-based task: an instance of a class with a method `run`, or the class."""
        found = task() if isinstance(task, type) else task
        if not isinstance(found, Task):
            raise InvalidTask(f"{task!r} must be of a subclass of pgqueue.compat.celery.Task.")
        vars(found).update(options)
        return declaring.register(found, type(found).run, self, is_bound=True)

    def gen_task_name(self, name: str, module: str) -> str:
        """Return the name of a task whose declaration gives no name."""
        return f"{module}.{name}"

    @property
    def Task(self) -> Any:
        """The class of its tasks and of shared tasks; a project may set it."""
        given = self.task_cls
        found = import_string(given.replace(":", ".")) if isinstance(given, str) else given
        return found or Task

    @Task.setter
    def Task(self, given: Any) -> None:
        self.task_cls = given
        if current.latest() is self:
            self._check_shared()

    @property
    def tasks(self) -> dict[str, Any]:
        """The tasks of this process, by their names."""
        current.discovery.import_all()
        return {own.name: own.origin for own in registry.each() if isinstance(own, CeleryTask)}

    def send_task(self, name: str, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Store a message of the task of this name, which has to be in this project.

        Raises:
            UnknownTask: this project has no task of this name. The message says how to enqueue a
                task of another project.
        """
        return found(name).apply_async(args, kwargs, **options)

    def signature(self, *args: Any, **kwargs: Any) -> Signature:
        """Return a signature: a call of a task for later."""
        made: Signature = signature(*args, **kwargs)
        return made

    @property
    def timezone(self) -> tzinfo:
        """The time zone of its schedules: its own setting, or the project's time zone."""
        named = self.conf.timezone
        return ZoneInfo(named) if isinstance(named, str) else named or get_default_timezone()

    def now(self) -> datetime:
        """Return the current time in the app's time zone."""
        return datetime.now(self.timezone)

    def add_periodic_task(
        self,
        schedule: Any,
        sig: Any,
        args: Any = (),
        kwargs: Any = (),
        name: str | None = None,
        **options: Any,
    ) -> str:
        """Add an entry to beat_schedule; return its name."""
        key = name or repr(sig)
        entry = beat.entry_of(schedule, sig, args, dict(kwargs), options)
        self.conf.beat_schedule = {**self.conf.beat_schedule, key: entry}
        return key

    def configure(self) -> None:
        """Call the functions that wait for the app's configuration, once."""
        for each in (self.on_configure, self.on_after_configure, self.on_after_finalize):
            each.send(self)

    def subclass_with_self(
        self,
        Class: Any,
        name: str | None = None,
        attribute: str = "app",
        reverse: str | None = None,
        keep_reduce: bool = False,
        **others: Any,
    ) -> Any:
        """Return a subclass with this app as an attribute."""
        told = {attribute: self, "__module__": Class.__module__, "__doc__": Class.__doc__, **others}
        return type(name or Class.__name__, (Class,), told)

    def finalize(self, auto: bool = False) -> None:
        """Do nothing: tasks are made as they are declared."""

    def close(self) -> None:
        """Do nothing: there are no connections but Django's."""

    @property
    def current_task(self) -> Any:
        """The running task; None: no task runs here."""
        return running_task()


def _check_parts(app: type[Celery], given: dict[str, Any]) -> None:
    """Refuse a replaced part of Celery's, given as an argument or set in the app's class."""
    for name, why in REPLACED.items():
        if given.pop(name, None) is not None or hasattr(app, f"{name}_cls"):
            raise Unsupported(f"Celery({name}=…): {why}.")


SHORT = {"broker": "broker_url", "backend": "result_backend"}
"""Arguments that have other names as settings."""


def shared_task(*args: Any, **options: Any) -> Any:
    """Make a function a task, by the settings of the current app: `@shared_task`.

    Args:
        options: bind, base, name, and the attributes of `Task`; other options become
            attributes of the task.

    Raises:
        InvalidTask: an option is invalid, or the function is not at the top of its module.
        Unsupported: an option is not taken over from Celery.
    """
    return _decorated(None, args, options)


def _decorated(app: Celery | None, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if len(args) == 1 and callable(args[0]) and not options:
        return declaring.declare(args[0], app, {})
    if args:
        raise InvalidTask("A task takes options by name: @shared_task(bind=True).")

    def decorate(function: Callable[..., Any]) -> Any:
        return declaring.declare(function, app, options)

    return decorate


def current_app() -> Celery:
    """Return the current app; without one, an app with the CELERY_ settings."""
    found: Celery = current.app()
    return found


def _without_app() -> Celery:
    app = Celery("default", set_as_current=False)
    app.conf = of_django()
    return app


current.fallback = _without_app


def app_or_default(app: Celery | None = None) -> Celery:
    """Return the app; None: the current one."""
    return app or current_app()


class Proxy:
    """Stands for the current app or task at the moment of its use."""

    def __init__(self, find: Callable[[], Any]) -> None:
        vars(self)["_find"] = find

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_find"](), name)

    def __bool__(self) -> bool:
        return vars(self)["_find"]() is not None

    def __repr__(self) -> str:
        return repr(vars(self)["_find"]())


__getattr__ = absent.names_of(__name__)
