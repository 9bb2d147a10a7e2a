"""The catalogues of the admin's texts: complete, compiled, and used."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from gettext import GNUTranslations
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import translation

from pgqueue.models import Message
from pgqueue.states import State
from tests import programs

PACKAGE = Path(__file__).parents[2] / "pgqueue"
LOCALE = PACKAGE / "locale"
LANGUAGES = sorted(path.parent.parent.name for path in LOCALE.glob("*/LC_MESSAGES/django.po"))
ENTRY = re.compile(
    r'^msgid (?P<id>(?:".*"\n)+)(?:msgid_plural (?P<plural>(?:".*"\n)+))?'
    r'(?P<texts>(?:msgstr(?:\[\d\])? (?:".*"\n)+)+)',
    re.MULTILINE,
)
PLACE = re.compile(r"%\(\w+\)[sd]|%\.?\d*[sdf]|\{\w*\}")
ESCAPED = {'\\"': '"', "\\n": "\n", "\\\\": "\\"}


def said(quoted: str) -> str:
    """Return a text of a catalogue, which may be quoted in several lines."""
    text = "".join(line[1:-1] for line in quoted.strip().split("\n"))
    return re.sub(r"\\.", lambda found: ESCAPED[found[0]], text)


def entries(path: Path) -> dict[str, tuple[set[str], list[str]]]:
    """Return the entries of a catalogue: by text, its forms and its translations."""
    found = {}
    for entry in ENTRY.finditer(path.read_text() + "\n"):
        texts = re.split(r"^msgstr(?:\[\d\])? ", entry["texts"], flags=re.MULTILINE)[1:]
        forms = {said(entry[name]) for name in ("id", "plural") if entry[name]}
        found[said(entry["id"])] = forms, [said(text) for text in texts]
    found.pop("")
    return found


def test_the_template_has_all_texts_and_no_others(tmp_path: Path) -> None:
    programs.find("xgettext", package="gettext")
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".py", ".html") and not path.is_relative_to(LOCALE):
            (tmp_path / path.relative_to(PACKAGE)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, tmp_path / path.relative_to(PACKAGE))
    (tmp_path / "locale").mkdir()
    made = [sys.executable, "-m", "django", "makemessages", "--locale", "xx", "--keep-pot"]
    without_settings = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    subprocess.run(
        [*made, "--no-location"], cwd=tmp_path, env=without_settings, check=True, timeout=100
    )

    assert (
        entries(LOCALE / "django.pot").keys() == entries(tmp_path / "locale/django.pot").keys()
    ), "run make messages"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_catalogue_is_complete_and_has_the_same_places(language: str) -> None:
    texts = entries(LOCALE / language / "LC_MESSAGES" / "django.po")

    assert texts.keys() == entries(LOCALE / "django.pot").keys(), "run make messages"
    assert [text for text, (_, translated) in texts.items() if not all(translated)] == []
    wrong = [
        text
        for text, (forms, translated) in texts.items()
        if {frozenset(PLACE.findall(each)) for each in translated}
        - {frozenset(PLACE.findall(form)) for form in forms}
    ]
    assert wrong == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_installed_was_compiled_of_it(language: str) -> None:
    folder = LOCALE / language / "LC_MESSAGES"
    with (folder / "django.mo").open("rb") as file:
        compiled: dict[Any, str] = GNUTranslations(file)._catalog  # type: ignore[attr-defined]

    for text, (_, translated) in entries(folder / "django.po").items():
        if len(translated) == 1:
            assert compiled[text] == translated[0], "run make messages"
        else:
            assert [compiled[text, n] for n in range(len(translated))] == translated
    assert "" in compiled


def test_pages_are_german_where_the_project_is(db: None, client: Client, settings: Any) -> None:
    settings.LANGUAGE_CODE = "de"
    translation.activate("de")
    client.force_login(User.objects.create_superuser("κ"))
    Message.objects.create(
        channel="mail", key="κ", task="t", state=State.DEAD, max_attempts=1, errors=[{"class": "E"}]
    )

    overview = client.get("/admin/pgqueue/overview/").text
    key = client.get("/admin/pgqueue/message/key/?channel=mail&key=κ").text

    assert "Tote Nachrichten nach Fehler" in overview
    assert "1 Nachricht ist zu oft fehlgeschlagen" in key
    assert "Kein lebender Worker bedient diesen Kanal" in key
