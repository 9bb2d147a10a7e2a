"""Write the table and the names of docs/settings.md: `python docs/_extensions/settings_table.py`.

Its rows are the fields of `pgqueue.conf.Settings`, with their defaults and docstrings. `make docs`
writes the page, and `tests/docs/test_settings.py` fails where the page differs from the code.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from textwrap import fill, indent
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "settings.md"
CODE = ROOT / "pgqueue" / "conf.py"
TABLE = (
    "<!-- Written by docs/_extensions/settings_table.py. -->\n",
    "<!-- The end of the table. -->\n",
)
NAMES = ("<!-- The names of pgqueue.redaction.FIELDS. -->\n", "<!-- The end of the names. -->\n")
GUIDES: Mapping[str, str] = {
    "base_url": "[People in the loop](guide/durable-people.md)",
    "backoff": "[Settings of tasks](guide/tasks.md#failures)",
    "event_max_age": "[Events](operations.md#events)",
    "event_retention": "[Events](operations.md#events)",
    "encryption_keys": "[Encryption](guide/encryption.md)",
    "export_before_drop": "[Export to Parquet](pipeline.md#export-to-parquet)",
    "feed": "[The WAL feed](guide/wal.md)",
    "max_steps": "[Long loops](guide/durable-loops.md)",
    "metrics_token": "[Logs, metrics and alerts](guide/observability.md)",
    "redact": "[Redaction](guide/redaction.md)",
    "release": "[Operating from the admin](guide/operating-from-the-admin.md)",
    "run_logs": "[The log lines of a run](guide/observability.md#the-log-lines-of-a-run)",
    "schedules": "[Schedules](guide/schedules.md)",
    "tenant": "[Tenants](guide/tenants.md)",
    "tenant_metrics": "[Metrics by tenant](guide/tenants.md#metrics-by-tenant)",
    "webhooks": "[Webhooks](guide/webhooks.md)",
}
"""The page that explains a setting, by the field's name."""
WORDS: Mapping[str, str] = {
    "backoff": "`Exponential()`",
    "encryption_keys": "`[]`",
    "redact": "[these names](#names-that-are-redacted)",
    "webhooks": "`{}`",
}
"""Defaults whose value is too long to be shown."""


def table() -> str:
    """Return the table, in Markdown."""
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    from pgqueue.conf import Settings, read

    yield "| `PGQUEUE` | default | |"
    yield "|---|---|---|"
    said, defaults = docstrings(), read({})
    for each in fields(Settings):
        see = f" {GUIDES[each.name]}" if each.name in GUIDES else ""
        default = _default(getattr(defaults, each.name), each.name)
        yield f"| `{each.name.upper()}` | {default} | {said[each.name]}{see} |"


def docstrings() -> dict[str, str]:
    """Return the docstring of each field, in one line."""
    module = ast.parse(CODE.read_text("utf-8"))
    (of_settings,) = (
        each for each in module.body if isinstance(each, ast.ClassDef) and each.name == "Settings"
    )
    texts = {}
    for field, text in pairwise(of_settings.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=said)):
                texts[name] = " ".join(str(said).split())
    return texts


def _default(value: Any, name: str) -> str:
    if name in WORDS:
        return WORDS[name]
    if isinstance(value, dict) and value:
        (value,) = set(value.values())  # one retention for each outcome
    if isinstance(value, timedelta):
        return f"{value.days} days" if value.days else f"{value.total_seconds():g} s"
    return f"`{json.dumps(value) if isinstance(value, str) else value}`"


def names() -> str:
    """Return the names of fields that are redacted unless REDACT says otherwise."""
    from pgqueue.redaction import FIELDS

    names = fill(", ".join(sorted(FIELDS)), 116, break_on_hyphens=False)
    return indent(names, " " * 4) + "\n"


def written(text: str) -> str:
    """Return the page with its parts between their comments."""
    for (begin, end), part in ((TABLE, table()), (NAMES, names())):
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n{part}\n{end}{after}"
    return text


def write() -> None:
    """Write both into the page, if they differ."""
    text = PAGE.read_text("utf-8")
    if (new := written(text)) != text:
        PAGE.write_text(new, "utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    write()
