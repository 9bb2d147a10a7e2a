"""Write the tables of options in the guide: `python docs/_extensions/options_tables.py`.

Their rows are the records of options of subscriptions and webhooks. `make docs` writes the pages,
and `tests/docs/test_options.py` fails where a page differs from the code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide"
BEGIN = "<!-- Written by docs/_extensions/options_tables.py. -->\n"
END = "<!-- The end of the table. -->\n"
LINKS: Mapping[str, str] = {
    "where": " [Filters](events.md#filters)",
    "predicate": " [Conditions in SQL](subscriptions.md#conditions-in-sql)",
}
"""The page that explains an option, by its name."""


def tables() -> dict[Path, str]:
    """Return the table of each page, in Markdown."""
    return {
        GUIDE / "subscriptions.md": "\n".join(_subscriptions()),
        GUIDE / "webhooks.md": "\n".join(_webhooks()),
    }


def _subscriptions() -> Iterator[str]:
    from pgqueue.options.subscription_options import OPTIONS
    from pgqueue.tasks.options import EventTaskOptions

    yield from _head()
    yield "| `name` | the name of the subscription | the task's |"
    yield from (_row(name, each) for name, each in OPTIONS.items() if name != "channel")
    options = [each for each in EventTaskOptions.__annotations__ if each != "queue_name"]
    names = ", ".join(f"`{each}`" for each in (*options, "takes_context", "redact"))
    yield f"| {names} | as for `@task` | |"


def _webhooks() -> Iterator[str]:
    from pgqueue.options.webhook_options import OPTIONS, POST

    yield from _head()
    yield from (_row(name, each) for name, each in POST.items())
    names = ", ".join(f"`{each}`" for each in OPTIONS if each not in (*POST, "channel"))
    yield _row("channel", OPTIONS["channel"])
    yield f"| {names} | as for [subscriptions](subscriptions.md#in-code) | |"


def _head() -> Iterator[str]:
    yield "| option | | default |"
    yield "|---|---|---|"


def _row(name: str, option: object) -> str:
    about, default = option.about, option.default_words  # type: ignore[attr-defined]
    return f"| `{name}` | {about}{LINKS.get(name, '')} | {default} |"


def written(text: str, table: str) -> str:
    """Return a page with a table between its comments."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n\n{END}{after}"


def write() -> None:
    """Write the tables into their pages, where they differ."""
    for page, table in tables().items():
        text = page.read_text("utf-8")
        if (new := written(text, table)) != text:
            page.write_text(new, "utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    write()
