"""Django's lazy texts as arguments: stored in the language that is active then."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse_lazy
from django.utils.functional import lazy, lazystr
from django.utils.safestring import SafeString
from django.utils.text import format_lazy
from django.utils.translation import (
    gettext_lazy,
    ngettext_lazy,
    npgettext_lazy,
    override,
    pgettext_lazy,
)

from pgqueue.codec import raw
from pgqueue.codec.encoding import ExactHint
from pgqueue.exceptions import InvalidArgument
from tests.codec.test_arguments import Point, codec_of, sent, there_and_back

MONDAY = gettext_lazy("Monday")


@pytest.mark.parametrize("hint", [Any, str, str | None, int])
def test_a_translation_is_its_text_in_the_active_language(hint: Any) -> None:
    with override("de"):
        german = codec_of(hint).encode((MONDAY,), {})
    english = codec_of(hint).encode((MONDAY,), {})

    with override("fr"):
        assert codec_of(hint).decode(german) == (["Montag"], {})
        assert codec_of(hint).decode(english) == (["Monday"], {})


def test_a_translation_is_plain_text_in_json() -> None:
    assert sent(Any, MONDAY) == "Monday"
    assert sent(str, [MONDAY]) == ["Monday"]
    assert sent(Any, {"a": (MONDAY,)}) == {"a": {"@": "tuple", "value": ["Monday"]}}


def test_a_translation_is_a_part_of_results_progress_steps_and_raw_payloads() -> None:
    codec = codec_of(Any)

    with override("de"):
        texts = [codec.encode_result(MONDAY), codec.encode_progress(MONDAY)]
        texts += [ExactHint(str).dump(MONDAY), raw.encode("it", MONDAY)]

    assert texts == ['"Montag"'] * 4


def test_a_field_of_a_dataclass_may_be_lazy() -> None:
    assert sent(Point, Point(MONDAY, 1)) == {"x": "Monday", "y": 1}
    assert there_and_back(codec_of(Point), Point(MONDAY, 1)) == ([Point("Monday", 1)], {})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (pgettext_lazy("a day", "Monday"), "Monday"),
        (ngettext_lazy("%d day", "%d days", 2), "%d days"),
        (ngettext_lazy("%d day", "%d days") % 2, "2 days"),
        (format_lazy("{} …", MONDAY), "Monday …"),
        (reverse_lazy("admin:index"), "/admin/"),
        (lazystr("a"), "a"),
        (lazy(lambda: SafeString("<b>"), SafeString)(), "<b>"),
    ],
)
def test_other_lazy_texts_are_their_text(value: Any, text: str) -> None:
    assert sent(Any, value) == text
    assert type(sent(Any, value)) is str


@pytest.mark.parametrize(
    "value",
    [
        ngettext_lazy("%d day", "%d days"),
        npgettext_lazy("a", "%(n)d day", "%(n)d days", "n"),
        lazy(lambda: 5, int)(),
        lazy(lambda: {"a": 1}, dict)(),
        lazy(lambda: "5", str, int)(),
    ],
    ids=range(5),
)
def test_a_lazy_value_that_is_no_text_yet_is_refused(value: Any) -> None:
    with pytest.raises(
        InvalidArgument, match=r"argument 'value' of .*: \[0\] is lazy, and no text"
    ):
        sent(Any, [value])


def test_a_lazy_text_that_fails_names_the_argument() -> None:
    with pytest.raises(InvalidArgument, match=r"'value' of .* is a lazy text .*NoReverseMatch"):
        sent(Any, reverse_lazy("no-such-page"))
