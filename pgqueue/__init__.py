"""A job queue, message queue and event log for Django, on the PostgreSQL you already have."""

import re
from functools import cache
from importlib import import_module
from pkgutil import get_data
from typing import Any

from pgqueue.values.version import VERSION

__version__: str = VERSION


# Importing the package must need neither settings nor models: Spark's executors import it, too. So
# each name is loaded when it is first used. The names are listed once, for type checkers and here.
@cache
def _homes() -> dict[str, str]:
    stub = (get_data(__name__, "__init__.pyi") or b"").decode()
    found = re.findall(r"^from ([\w.]+) import (\w+) as \2$", stub, flags=re.MULTILINE)
    return {name: home for home, name in found}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted(_homes())
    # Python asks for other dunder names, such as __path__, before it imports a submodule.
    home = None if name.startswith("__") else _homes().get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_homes()])
