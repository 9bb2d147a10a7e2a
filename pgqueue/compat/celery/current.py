"""The apps of this process, and the one whose settings shared tasks take."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from django.apps import apps as django_apps
from django.utils.module_loading import autodiscover_modules

from pgqueue.compat.celery.conf import Conf, of_django, on_change

if TYPE_CHECKING:
    from pgqueue.compat.celery.app import Celery

apps: list[Celery] = []
"""In the order in which they were made; the last one that is current comes last."""
loading = threading.RLock()


@lru_cache(maxsize=1)
def _of_django() -> Conf:
    return of_django()


def conf() -> Conf:
    """Return the settings of the current app; without one, those that begin with CELERY_."""
    return apps[-1].conf if apps else _of_django()


def _touch() -> None:
    for each in [*(app.conf for app in apps), _of_django()]:
        each.touch()


on_change(_touch)


class Discovery:
    """Modules that are imported when a worker, or a name, needs the tasks in them."""

    def __init__(self) -> None:
        self._wanted: list[tuple[Callable[[], list[str]] | list[str] | None, str | None]] = []
        self._done = 0
        self._later: list[Callable[[], None]] = []

    def add(self, packages: Any, related_name: str | None) -> None:
        """Note that a module of each package is to be imported; None: of each Django app."""
        self._wanted.append((packages, related_name))

    def import_all(self) -> None:
        """Import what was not imported yet, and the `tasks` of all Django apps."""
        with loading:
            if not django_apps.ready:
                return
            self._make()
            autodiscover_modules("tasks")
            while self._done < len(self._wanted):
                packages, related_name = self._wanted[self._done]
                self._done += 1
                self._import(packages, related_name)
            for settings in [app.conf for app in apps] or [_of_django()]:
                for module in (*settings.imports, *settings.include):
                    import_module(module)

    def later(self, make: Callable[[], None]) -> None:
        """Call something once the settings and the apps are there: at once, if they are."""
        self._later.append(make)
        if django_apps.ready:
            self._make()

    def _make(self) -> None:
        with loading:
            while self._later:
                self._later.pop(0)()

    def _import(self, packages: Any, related_name: str | None) -> None:
        found = packages() if callable(packages) else packages
        if found is None:
            if related_name:
                autodiscover_modules(related_name)
            return
        for package in found:
            name = f"{package}.{related_name}" if related_name else package
            import_module(package)
            if find_spec(name) is not None:
                import_module(name)


discovery = Discovery()
