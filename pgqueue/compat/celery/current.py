"""The apps of this process, and the current app, whose settings hold for shared tasks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol

from django.apps import apps as django_apps
from django.utils.module_loading import autodiscover_modules

from pgqueue.compat.celery.conf import Conf, of_django


class App(Protocol):
    """The interface of an app for the modules below it."""

    conf: Conf


apps: list[Any] = []
"""The apps in the order in which they became current: the last one is the current app."""

shared: list[tuple[str, App | None]] = []
"""The names of shared tasks, and the app that was current when they were declared."""


def _no_app() -> Any:
    raise LookupError("import pgqueue.compat.celery first.")


fallback: Callable[[], Any] = _no_app
"""Returns the app of a project without an app. The module `app` sets it."""


def latest() -> Any:
    """Return the current app; None: there is none yet."""
    return apps[-1] if apps else None


def app() -> Any:
    """Return the current app; without one, an app with the CELERY_ settings."""
    return apps[-1] if apps else fallback()


@lru_cache(maxsize=1)
def _of_django() -> Conf:
    return of_django()


def conf() -> Conf:
    """Return the settings of the current app; without one, the CELERY_ settings."""
    found: Conf = apps[-1].conf if apps else _of_django()
    return found


class Discovery:
    """Modules that are imported when a worker, or the lookup of a name, needs their tasks.

    It takes no lock, which could deadlock: another thread may import a module whose tasks need this
    lock, while the holder of the lock waits for that module.
    """

    def __init__(self) -> None:
        self._wanted: list[tuple[Any, str | None]] = []
        self._later: list[Callable[[], None]] = []

    def add(self, packages: Any, related_name: str | None) -> None:
        """Note a module of each package for a later import; None: of each Django app."""
        self._wanted.append((packages, related_name))

    def import_all(self) -> None:
        """Import the noted modules, and the module `tasks` of all Django apps."""
        if not django_apps.ready:
            return
        self._make()
        autodiscover_modules("tasks")
        for packages, related_name in list(self._wanted):
            _import(packages, related_name)
        for settings in [app.conf for app in apps] or [_of_django()]:
            for module in (*settings.imports, *settings.include):
                import_module(module)

    def later(self, make: Callable[[], None]) -> None:
        """Call a function when Django's settings and apps are ready; at once, if they are.

        Two threads may call the function at the same time.
        """
        if django_apps.ready:
            make()
        else:
            self._later.append(make)

    def _make(self) -> None:
        while first := self._later[:1]:  # one step, since another thread may remove it
            [make] = first
            try:
                make()
            finally:
                with suppress(ValueError):  # another thread has called it, too
                    self._later.remove(make)


def _import(packages: Any, related_name: str | None) -> None:
    found = packages() if callable(packages) else packages
    if found is None:
        if related_name:
            autodiscover_modules(related_name)
        return
    for package in found:
        _import_related(package, related_name)


def _import_related(package: str, related_name: str | None) -> None:
    """Import a module of a package, if it exists; an AppConfig's path stands for its package."""
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package or "." not in package or not related_name:
            raise
        package = package.rpartition(".")[0]
    name = f"{package}.{related_name}"
    try:
        if related_name:
            import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise


discovery = Discovery()
