"""The apps of this process, and the one whose settings shared tasks take.

A project makes its Celery app while Django's settings are imported. So no module of `compat.celery`
imports models, or reads a setting, at its top: `later` calls a function once both are there.
"""

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
    """An app, as the modules below it know it."""

    conf: Conf


apps: list[Any] = []
"""In the order in which they were made; the last one that is current comes last."""

shared: list[tuple[str, App | None]] = []
"""The names of shared tasks, and the app that was current when they were declared."""


def _no_app() -> Any:
    raise LookupError("import pgqueue.compat.celery first.")


fallback: Callable[[], Any] = _no_app
"""Makes the app of a project that has none. The module of apps sets it."""


def latest() -> Any:
    """Return the app that is current; None: there is none yet."""
    return apps[-1] if apps else None


def app() -> Any:
    """Return the app whose settings shared tasks take; without one, one of CELERY_ settings."""
    return apps[-1] if apps else fallback()


@lru_cache(maxsize=1)
def _of_django() -> Conf:
    return of_django()


def conf() -> Conf:
    """Return the settings of the current app; without one, those that begin with CELERY_."""
    found: Conf = apps[-1].conf if apps else _of_django()
    return found


class Discovery:
    """Modules that are imported when a worker, or a name, needs the tasks in them.

    It takes no lock: another thread may be importing a module whose tasks are declared by this, and
    this wait for that module.
    """

    def __init__(self) -> None:
        self._wanted: list[tuple[Any, str | None]] = []
        self._later: list[Callable[[], None]] = []

    def add(self, packages: Any, related_name: str | None) -> None:
        """Note that a module of each package is to be imported; None: of each Django app."""
        self._wanted.append((packages, related_name))

    def import_all(self) -> None:
        """Import all that is wanted, and the `tasks` of all Django apps."""
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
        """Call something once the settings and the apps are there: at once, if they are.

        Then two threads may call it at the same time.
        """
        if django_apps.ready:
            make()
        else:
            self._later.append(make)

    def _make(self) -> None:
        while self._later:
            make = self._later[0]
            try:
                make()
            finally:
                with suppress(ValueError):  # another thread has done it, too
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
    """Import a module of a package, if it has one; of the path of an AppConfig, beside that."""
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
