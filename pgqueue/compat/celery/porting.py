"""Report the uses of Celery in a project's source, for `pgqueue_from_celery`.

The files are parsed; no module of the project is imported.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pgqueue.compat.celery import calling, checks, conf, making, signals
from pgqueue.compat.celery.exceptions import Unsupported
from pgqueue.compat.celery.task import Task

OURS = "pgqueue.compat.celery"
THEIRS = "celery"
Word = Literal["taken over", "differs", "refused"]

SKIPPED = ("node_modules", "site-packages", "__pycache__", "build", "dist", "venv", "env")
LINKS = ("link", "link_error")
RETRY = ("exc", "countdown", "eta", "max_retries", "throw", "args", "kwargs")
DECORATORS = ("shared_task", "task", "periodic_task")
ALWAYS = "a message of a dead worker is always run again"
DIFFERENT_OPTIONS: Mapping[str, str] = {
    "acks_late": ALWAYS,
    "reject_on_worker_lost": ALWAYS,
    "rate_limit": "it is a policy of the channel, for all workers together",
    "priority": "higher first, as with RabbitMQ",
    "task_id": "a second message with the same task_id is not stored: the first is returned",
}
OTHERS: Mapping[str, tuple[Word, str]] = {
    "kombu": ("differs", "there is no broker: channels need no declaration, so drop its queues"),
    "billiard": ("refused", "workers are threads and processes of Python's own"),
    "django_celery_beat": (
        "refused",
        "`manage.py pgqueue_import --from celery-beat` moves its schedules to the admin's",
    ),
    "django_celery_results": ("refused", "results are rows of pgqueue's own: use AsyncResult"),
    "redbeat": ("refused", "add its schedules to beat_schedule"),
    "flower": ("refused", "the admin shows workers and messages"),
}
"""Packages beside Celery: whether each is taken over, and the advice."""


class Finding(NamedTuple):
    """A use of Celery in a file.

    Attributes:
        path, line: its place.
        what: the expression in the source.
        word: the verdict: "taken over", "differs" or "refused".
        why: the difference, or the advice; "": none.
        is_import: whether `rewritten` changes the line.
    """

    path: Path
    line: int
    what: str
    word: Word
    why: str = ""
    is_import: bool = False


def files(roots: Iterable[Path]) -> Iterator[Path]:
    """Yield the Python files below these folders, without hidden files and installed packages."""
    for root in roots:
        if root.is_file():
            yield root
            continue
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).parts
            if not any(part in SKIPPED or part.startswith(".") for part in parts):
                yield path


def findings(path: Path) -> list[Finding]:
    """Return the uses of Celery in a file, in the order of its lines.

    Raises:
        SyntaxError: this version of Python cannot parse the file.
    """
    text, _encoding = _read(path)
    tree = ast.parse(text, str(path))
    found = [Finding(path, *each) for node in ast.walk(tree) for each in _of(node)]
    return sorted(found, key=lambda each: each.line)


def rewritten(path: Path) -> bytes | None:
    """Return a file with imports of this package in the place of Celery; None: no change.

    Statements that import a refused module or name stay unchanged, and so do the file's encoding
    and the ends of its lines.
    """
    text, encoding = _read(path)
    # Unlike splitlines(), this ends lines where Python's grammar does: not at a form feed.
    lines = io.StringIO(text, newline="").readlines()
    changed = False
    for node in ast.walk(ast.parse(text, str(path))):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        imports = list(_imported(node))
        if not imports or any(each[2] == "refused" for each in imports):
            continue
        line = lines[node.lineno - 1]
        start = len(line.encode()[: node.col_offset].decode())
        new = _as_ours(node, line[start:])
        changed |= new != line[start:]
        lines[node.lineno - 1] = line[:start] + new
    return "".join(lines).encode(encoding) if changed else None


def _as_ours(node: ast.Import | ast.ImportFrom, text: str) -> str:
    """Return the first line of a statement that imports Celery, as one of this package."""
    if isinstance(node, ast.ImportFrom):
        return re.sub(r"^from\s+celery\b", f"from {OURS}", text)
    if len(node.names) > 1:
        return text
    [only] = node.names
    if only.asname or only.name == THEIRS:
        return re.sub(
            r"^import\s+celery\b([\w.]*)(\s+as\s+\w+)?",
            lambda found: f"import {OURS}{found[1]}{found[2] or ' as celery'}",
            text,
        )
    return re.sub(
        r"^import\s+celery\b([\w.]*)",
        lambda found: f"import {OURS}{found[1]}; from pgqueue.compat import celery",
        text,
    )


def _read(path: Path) -> tuple[str, str]:
    """Return the text of a file, with its own ends of lines, and its encoding."""
    content = path.read_bytes()
    encoding, _lines = tokenize.detect_encoding(io.BytesIO(content).readline)
    return content.decode(encoding), encoding


_Found = tuple[int, str, Word, str, bool]


def _of(node: ast.AST) -> Iterator[_Found]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from _imported(node)
    elif isinstance(node, ast.Call):
        yield from _called(node)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        yield from _assigned(node)
    elif isinstance(node, ast.Constant) and node.value in OTHERS:
        word, why = OTHERS[str(node.value)]
        yield node.lineno, repr(node.value), word, why, False
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        for decorator in node.decorator_list:
            yield from _decorated(decorator)


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[_Found]:
    if isinstance(node, ast.Import):
        for each in node.names:
            if each.name.partition(".")[0] == THEIRS:
                word, why = becomes_of(each.name.removeprefix(THEIRS).lstrip("."))
                if word == "taken over" and len(node.names) > 1:
                    word, why = "refused", "import it in a line of its own"
                yield node.lineno, f"import {each.name}", word, why, True
            else:
                yield from _other(node.lineno, each.name)
        return
    module = node.module or ""
    if node.level or module.partition(".")[0] != THEIRS:
        if not node.level:
            yield from _other(node.lineno, module)
        return
    for each in node.names:
        word, why = becomes_of(module.removeprefix(THEIRS).lstrip("."), each.name)
        yield each.lineno or node.lineno, f"from {module} import {each.name}", word, why, True


def _other(line: int, module: str) -> Iterator[_Found]:
    if (root := module.partition(".")[0]) in OTHERS:
        word, why = OTHERS[root]
        yield line, f"import {module}", word, why, False


def becomes_of(module: str, name: str | None = None) -> tuple[Word, str]:
    """Return whether a module of Celery's, or a name in it, is taken over, and the reason.

    Args:
        module: without `celery.`; "": the package itself.
    """
    try:
        found: Any = import_module(f"{OURS}.{module}" if module else OURS)
        if name and name != "*" and not hasattr(found, name):
            found = import_module(f"{found.__name__}.{name}")
        elif name and name != "*":
            found = getattr(found, name)
    except Unsupported as error:
        return "refused", str(error).partition(": ")[2].rstrip(".")
    except ImportError:
        return "refused", "pgqueue has no such name"
    if isinstance(found, signals.Absent):
        return "refused", f"it is never sent: {found.instead}"
    if isinstance(found, signals.Unsent):
        return "differs", f"it is never sent: {found.instead}"
    return "taken over", ""


def _called(node: ast.Call) -> Iterator[_Found]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    given = {each.arg: each.value for each in node.keywords if each.arg}
    if name in ("apply_async", "send_task") and not _is_super(node.func):
        yield from _enqueued(name, given)
    elif name == "retry" and _is_self(node.func):
        yield from _retried(given)
    elif name == "update" and _ends_with(node.func, "conf"):
        for option, value in given.items():
            yield from _setting(value.lineno, option, value)
    elif isinstance(node.func, ast.Attribute) and _ends_with(node.func, "control"):
        yield _controlled(node.lineno, name)
    elif name == "Celery":
        yield from _made_app(node.lineno, given)


def _made_app(line: int, given: Iterable[str]) -> Iterator[_Found]:
    for option in given:
        if option in ("broker", "backend"):
            yield line, f"Celery({option}=…)", "differs", "it has no effect", False


def _enqueued(name: str, given: Mapping[str, ast.expr]) -> Iterator[_Found]:
    for option, value in given.items():
        if option not in ("args", "kwargs", "name"):
            word, why = _of_option(option)
            yield value.lineno, f"{name}({option}=…)", word, why, False


def _retried(given: Mapping[str, ast.expr]) -> Iterator[_Found]:
    why = "options must not change between the attempts of a message"
    for option, value in given.items():
        if option not in RETRY:
            yield value.lineno, f"retry({option}=…)", "refused", why, False


def _controlled(line: int, name: str) -> _Found:
    if name in ("revoke", "inspect", "ping"):
        return line, f"control.{name}()", "taken over", "", False
    why = "no call controls one worker: use the admin or Channel"
    return line, f"control.{name}()", "refused", why, False


def _of_option(option: str) -> tuple[Word, str]:
    """Return whether an option of apply_async is taken over, and the reason."""
    if option in LINKS:
        return "taken over", ""
    if option in DIFFERENT_OPTIONS:
        return "differs", DIFFERENT_OPTIONS[option]
    if option in calling.NEEDLESS:
        return "differs", "it has no effect: the message is stored by your transaction"
    if option in calling.REFUSED:
        return "refused", calling.REFUSED[option]
    if option in calling.KNOWN:
        return "taken over", ""
    return "differs", "it becomes a header of the message"


def _decorated(node: ast.expr) -> Iterator[_Found]:
    if not isinstance(node, ast.Call):
        return
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name not in DECORATORS:
        return
    for each in node.keywords:
        option = str(each.arg)
        if option in making.REFUSED:
            yield (
                each.value.lineno,
                f"@{name}({option}=…)",
                "refused",
                making.REFUSED[option],
                False,
            )
        elif option in DIFFERENT_OPTIONS:
            why = DIFFERENT_OPTIONS[option]
            yield each.value.lineno, f"@{name}({option}=…)", "differs", why, False
        elif option in ("bind", "base", "name") or hasattr(Task, option):
            yield each.value.lineno, f"@{name}({option}=…)", "taken over", "", False


def _assigned(node: ast.Assign | ast.AnnAssign) -> Iterator[_Found]:
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, ast.Name) and target.id.isupper():
            now = conf.name_of_old(target.id)
            if (now is not None and not target.id.startswith("BROKER_")) or now in conf.NAMES:
                yield from _setting(node.lineno, str(now), node.value, target.id)
        elif isinstance(target, ast.Attribute) and _ends_with(target, "conf"):
            yield from _setting(node.lineno, target.attr, node.value)


def _setting(line: int, name: str, value: ast.expr | None, shown: str = "") -> Iterator[_Found]:
    word: Word = "taken over"
    why = ""
    if name == "beat_scheduler":
        scheduler = value.value if isinstance(value, ast.Constant) else ""
        if str(scheduler).replace(":", ".") != checks.DEFAULT_SCHEDULER:
            word, why = "refused", checks.instead_of(str(scheduler))
    elif needless := conf.why_needless(name):
        word, why = "differs", f"it has no effect: {needless}"
    elif name not in conf.TAKEN:
        word, why = "differs", "it is no setting of Celery's: the project reads it as before"
    yield line, shown or name, word, why, False


def _is_self(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and getattr(function.value, "id", "") in (
        "self",
        "task",
    )


def _is_super(function: ast.expr) -> bool:
    """Say whether a method is called by `super()`; such a call only passes options on."""
    inner = function.value if isinstance(function, ast.Attribute) else None
    return isinstance(inner, ast.Call) and getattr(inner.func, "id", "") == "super"


def _ends_with(node: ast.expr, name: str) -> bool:
    """Say whether an attribute belongs to an object of this name."""
    inner = node.value if isinstance(node, ast.Attribute) else None
    return (inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", "")) == name
