"""A class has a name of its own: `grep` and a traceback lead to one place."""

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
    **dict.fromkeys(["Retry", "Task", "TaskError"], CELERY),
    **dict.fromkeys(["Cell", "Offset", "Part", "Progress", "Range", "Rows", "Table"], SPARK),
    "Filter": "documented names of different packages: bulk.Filter, sse.Filter and Spark's",
    "Outcome": "the outcome of a message, and of a simulation in Spark",
}
"""Class names that may stand in several modules, with the reason."""


@cache
def repeated() -> dict[str, list[str]]:
    """Return the class names that stand at the top of several modules, with these modules."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        if "migrations" in path.parts or path.parent.name == "commands":
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(PACKAGE)))
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def test_a_class_name_stands_in_one_module() -> None:
    new = {name: paths for name, paths in repeated().items() if name not in ALLOWED}

    assert not new, (
        f"Class names in several modules: {new}. Name each class by its kind, as RetentionStep "
        f"and DutyReport are, or add the name to ALLOWED with a reason."
    )


def test_each_allowed_name_is_still_repeated() -> None:
    assert ALLOWED.keys() <= repeated().keys()
