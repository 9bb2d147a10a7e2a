"""SQL lies in a file beside the verb that runs it, each statement under its name.

    -- name: claim
    -- Why it is written this way.
    SELECT …

A line `-- include: NAME` stands for another statement of the same file, or of
`shared.sql` beside it: a fragment that several of them need.
"""

import re
from collections.abc import Collection
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_INCLUDE = re.compile(r"^[ ]*-- include: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^[ ]*--.*\n?", re.MULTILINE)


def load(module: str) -> dict[str, str]:
    """Return the statements of `module`, from the .sql file of its name.

    Args:
        module: a module's `__name__`.
    """
    package, _, name = module.rpartition(".")
    texts = {**_read(package, "shared"), **_read(package, name)}
    return {
        statement: _COMMENT.sub("", _with_includes(text, texts)).strip()
        for statement, text in texts.items()
    }


def names(module: str) -> Collection[str]:
    """Return the names of the statements in the .sql file of a module itself."""
    package, _, name = module.rpartition(".")
    return _read(package, name).keys()


def _with_includes(text: str, texts: dict[str, str]) -> str:
    return _INCLUDE.sub(lambda found: _with_includes(texts[found[1]], texts).rstrip(), text)


@cache
def _read(package: str, name: str) -> dict[str, str]:
    # By its path: importing a package may take what is not installed, such as PySpark.
    root, *folders = package.split(".")
    file = files(root).joinpath(*folders, f"{name}.sql")
    if not file.is_file():
        return {}
    _, *parts = _NAME.split(file.read_text("utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))
