"""Let other packages that import Celery find this package in its place.

    import sys

    import pgqueue.compat.celery

    sys.modules["celery"] = pgqueue.compat.celery

From then on `celery.schedules` is the module `pgqueue.compat.celery.schedules`: the same object
under both names, so that a class is one class whoever imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

OURS = "pgqueue.compat.celery"
THEIRS = "celery"


class _AliasLoader(Loader):
    """Loads a module by its other name."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module, which is imported already."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it was: the import has given it another spec."""
        module.__spec__ = self._spec


class AliasFinder(MetaPathFinder):
    """Finds modules of Celery's names, if `celery` is this package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module under its other name; None: the name is not Celery's.

        Raises:
            Unsupported: the module is not taken over from Celery.
            ModuleNotFoundError: Celery has no such module either.
        """
        if not fullname.startswith(f"{THEIRS}."):
            return None
        if sys.modules.get(THEIRS) is not sys.modules.get(OURS):
            return None
        try:
            module = import_module(OURS + fullname.removeprefix(THEIRS))
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith(f"{OURS}."):
                raise
            name = THEIRS + error.name.removeprefix(OURS)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name) from None
        return ModuleSpec(fullname, _AliasLoader(module), is_package=hasattr(module, "__path__"))


# The first finder: another finder would load a second copy of the module by its `__path__`.
sys.meta_path.insert(0, AliasFinder())
