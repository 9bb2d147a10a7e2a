"""A class has a name of its own, and a function's name says what: `grep` leads to one place."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pgqueue

PACKAGE = Path(pgqueue.__file__).parent

ROW = "the model is the table's row; the other class is the thing that the row stands for"
CELERY = "Celery's name, which a project imports"
SPARK = "the pipeline has modules that never meet those of the core"
ALLOWED = {
    **dict.fromkeys(
        ["Channel", "Duty", "Event", "Flow", "Schedule", "Tally", "Worker", "Write"], ROW
    ),
    "Group": "two public names: the model of a consumer group, and the calls that `group()` makes",
    **dict.fromkeys(["Retry", "Signal", "Task", "TaskError"], CELERY),
    **dict.fromkeys(["Cell", "Offset", "Part", "Progress", "Range", "Rows", "Table"], SPARK),
    "Filter": "documented names of different packages: bulk.Filter, sse.Filter and Spark's",
    "Outcome": "the outcome of a message, and of a simulation in Spark",
}
"""Class names that may stand in several modules, with the reason."""

VAGUE = {"build", "check", "find", "get", "make"}
"""Verbs that do not say what they build, check or find."""
KEPT = {
    "check": [
        *("compat/celery/making.py", "engine/predicates.py", "tasks/redacting.py"),
        # The two sources of a stream have the same functions.
        *("arrow/eventstream.py", "arrow/streaming.py"),
    ],
    "find": ["compat/celery/declaring.py", "engine/lookup.py", "tasks/registry.py"],
}
"""Modules whose own name says what. No further module has such a function."""


@cache
def defined() -> dict[str, list[tuple[type[ast.stmt], str]]]:
    """Return the names that are defined at the top of modules, with each kind and module."""
    found: dict[str, list[tuple[type[ast.stmt], str]]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        if "migrations" in path.parts or path.parent.name == "commands":
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found[node.name].append((type(node), str(path.relative_to(PACKAGE))))
    return found


def repeated() -> dict[str, list[str]]:
    """Return the class names that stand at the top of several modules, with these modules."""
    classes = {
        name: [path for kind, path in places if kind is ast.ClassDef]
        for name, places in defined().items()
    }
    return {name: paths for name, paths in classes.items() if len(paths) > 1}


def test_a_class_name_stands_in_one_module() -> None:
    new = {name: paths for name, paths in repeated().items() if name not in ALLOWED}

    assert not new, (
        f"Class names in several modules: {new}. Name each class by its kind, as RetentionStep "
        f"and DutyReport are, or add the name to ALLOWED with a reason."
    )


def test_each_allowed_name_is_still_repeated() -> None:
    assert ALLOWED.keys() <= repeated().keys()


def test_a_function_with_a_vague_name_stands_in_one_module() -> None:
    vague = {name: [path for _, path in defined()[name]] for name in VAGUE & defined().keys()}
    again = {name: sorted(paths) for name, paths in vague.items() if len(paths) > 1}

    assert again == {name: sorted(paths) for name, paths in KEPT.items()}, (
        "Name a function by its object, too: find_flow, check_schedule, make_partition."
    )
