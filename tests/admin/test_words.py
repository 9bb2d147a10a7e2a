"""What templates of the admin say can be translated."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

TEMPLATES = Path(str(files("pgqueue"))) / "templates" / "admin" / "pgqueue"
WRAPPED = re.compile(
    r"\{% blocktranslate.*?%\}.*?\{% endblocktranslate %\}|\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}",
    re.DOTALL,
)
CLASSES = re.compile(r"\{% block bodyclass %\}.*?\{% endblock %\}")
TAGS = re.compile(r"<[^>]*>|&\w+;")
WORDS = re.compile(r"[A-Za-z]{2,}")


def untranslated(text: str) -> list[str]:
    """Return the words of a template that no translation would change."""
    return WORDS.findall(TAGS.sub(" ", WRAPPED.sub("", CLASSES.sub("", text))))


@pytest.mark.parametrize("path", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: path.name)
def test_a_template_says_nothing_that_can_not_be_translated(path: Path) -> None:
    assert untranslated(path.read_text()) == []


def test_words_that_can_not_be_translated_are_noticed() -> None:
    page = '<p class="x">{% translate "Yes" %} <b>No</b> {{ value }} {# not this #}</p>'

    assert untranslated(page) == ["No"]
