"""Redaction of JSON texts, and of what they had in other texts."""

from __future__ import annotations

import json
import re
import traceback
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentry_sdk.serializer import serialize
from sentry_sdk.utils import event_from_exception

from pgqueue.calls.stand_ins import stand_in
from pgqueue.redaction import (
    FIELDS,
    HEAD,
    MASK,
    MOST_VALUES,
    Hidden,
    Redactor,
    as_fields,
    as_paths,
    tree_of,
)

BY_NAMES = Redactor(FIELDS)
SECRET = "correct horse battery staple"


def redacted(value: Any, redactor: Redactor = BY_NAMES) -> Any:
    return json.loads(redactor.redact(json.dumps(value)))


# --- By the names of fields


@pytest.mark.parametrize(
    "name",
    [
        *("password", "PASSWORD", "newPassword", "user_password", "password2", "PassWord"),
        *("token", "access_token", "accessToken", "accesstoken", "X-Auth-Token", "CSRFToken"),
        *("api_key", "apiKey", "APIKey", "apikey", "x-api-key", "stripe.api.key"),
        *("Authorization", "Proxy-Authorization", "Set-Cookie", "client_secret", "cardNumber"),
    ],
)
def test_a_name_whose_last_words_are_a_fields_is_redacted(name: str) -> None:
    assert redacted({"a": [{name: SECRET, "b": 1}]}) == {"a": [{name: MASK, "b": 1}]}


@pytest.mark.parametrize(
    "name",
    [
        *("token_count", "passwords_changed_at", "secretary", "api", "key", "monkey", "spin"),
        *("author", "authorized", "pinned", "cookie_banner", "", "_", "7", "é"),
    ],
)
def test_a_name_that_only_has_a_fields_letters_is_shown(name: str) -> None:
    assert redacted({name: SECRET}) == {name: SECRET}


def test_whatever_stands_under_a_name_is_redacted_but_for_nothing_at_all() -> None:
    given = {"token": {"a": [1, {"b": "]}"}]}, "pin": 1234, "otp": [1], "pwd": None, "after": True}

    assert redacted(given) == {
        **dict.fromkeys(("token", "pin", "otp"), MASK),
        "pwd": None,
        "after": True,
    }


def test_numbers_keep_all_their_digits() -> None:
    text = '{"password": "x", "n": 12345678901234567890.123456789012345678901}'

    assert BY_NAMES.redact(text) == text.replace('"x"', f'"{MASK}"')


def test_other_names_hold_in_the_place_of_the_default_ones() -> None:
    assert redacted({"iban": "x", "password": "y"}, Redactor(("IBAN",))) == {
        "iban": MASK,
        "password": "y",
    }
    assert redacted({"password": "y"}, Redactor(())) == {"password": "y"}


@pytest.mark.parametrize("cut", range(1, 60))
def test_of_a_text_that_was_cut_off_no_part_of_a_value_is_shown(cut: int) -> None:
    text = json.dumps({"to": 1, "auth_token": ["qqqq", {"deep": 'q\\"qqq'}], "x": 2}, indent=4)

    assert "q" not in BY_NAMES.redact(text[:cut])


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    # Of these letters no name of a field is made.
    lambda inner: st.lists(inner) | st.dictionaries(st.text('aàxy "\\{}[],:@\n'), inner),
)


@settings(max_examples=50, deadline=None)
@given(PLAIN)
def test_what_has_no_such_name_stays_as_it_is(value: Any) -> None:
    # With a tree, so that each text is looked at.
    redactor = Redactor((), {"\x00no such name": None})

    assert redactor.redact(json.dumps(value)) == json.dumps(value)


@settings(max_examples=50, deadline=None)
@given(PLAIN, PLAIN)
def test_a_secret_is_redacted_wherever_it_stands(secret: Any, beside: Any) -> None:
    text = json.dumps([beside, {"a": {"token": secret, "b": beside}}])
    mask = None if secret is None else MASK

    assert json.loads(BY_NAMES.redact(text)) == [beside, {"a": {"token": mask, "b": beside}}]


# --- By their places


def test_a_path_leads_into_objects_and_into_each_item_of_a_list() -> None:
    redactor = Redactor((), tree_of(["card", "user.email", "items.buyer.phone"]))
    given = {
        "card": {"number": 1},
        "user": {"email": "a@b", "name": "Ada"},
        "email": "shown",
        "items": [{"buyer": {"phone": 1, "card": 2}}, {"sku": 3}],
    }

    assert redacted(given, redactor) == {
        "card": MASK,
        "user": {"email": MASK, "name": "Ada"},
        "email": "shown",
        "items": [{"buyer": {"phone": MASK, "card": 2}}, {"sku": 3}],
    }


def test_a_path_leads_through_the_tags_of_the_codec() -> None:
    given = {"user": {"@": "dict", "value": {"email": "a@b", "id": {"@": "int", "value": 1}}}}

    assert redacted(given, Redactor((), tree_of(["user.email"]))) == {
        "user": {"@": "dict", "value": {"email": MASK, "id": {"@": "int", "value": 1}}}
    }


def test_places_in_a_list_are_redacted_by_their_number() -> None:
    redactor = Redactor((), {"[1]": None, "[*]": {"a": None}})

    assert redacted([{"a": 1}, 2, {"a": 3}, 4], redactor) == [{"a": MASK}, MASK, {"a": MASK}, 4]


def test_places_in_an_object_are_redacted_by_name_and_all_others_too() -> None:
    redactor = Redactor((), {"a": {}, "[*]": {"b": None}})

    assert redacted({"a": {"b": 1}, "c": {"b": 2}, "d": 3}, redactor) == {
        "a": {"b": 1},
        "c": {"b": MASK},
        "d": 3,
    }


def test_all_of_it_may_be_redacted() -> None:
    assert redacted({"a": 1}, Redactor((), None)) == MASK


def test_the_shorter_of_two_paths_holds() -> None:
    assert tree_of(["a.b", "a"]) == tree_of(["a", "a.b"]) == {"a": None}


@pytest.mark.parametrize("value", ["card", b"card", {"card"}, None, [1], ["a..b"], [""], [".a"]])
def test_what_is_no_list_of_paths_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="must be|no name|empty name"):
        as_paths(value)


@pytest.mark.parametrize("value", ["password", None, [1], [""], ["--"]])
def test_what_is_no_list_of_names_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="must be|no name|no letter"):
        as_fields(value)


# --- In other texts


def test_texts_and_numbers_of_what_is_redacted_are_known_but_no_names() -> None:
    text = json.dumps({"token": [{"inner": "a\nb"}, 4111111111111111, True, None], "x": "shown"})

    assert BY_NAMES.values(text) == ["a\nb", "4111111111111111"]


@pytest.mark.parametrize(
    "value", [SECRET, 'quo"ted', "it's", "two\nlines", "back\\slash", "né à Orléans", "x" * 1000]
)
@pytest.mark.parametrize("form", [str, repr, json.dumps, lambda value: f"<{value!r:.199}>"])
def test_a_value_is_hidden_however_an_error_quotes_it(value: str, form: Any) -> None:
    text = f"before {form(value)} after"

    hidden = Hidden([value])(text)

    assert MASK in hidden
    assert hidden.startswith("before ")
    assert value[:HEAD] not in hidden
    if form is not json.dumps or value.isascii():
        assert hidden.endswith(" after")


def test_what_is_too_short_to_be_told_from_other_texts_is_not_hidden() -> None:
    text = "line 2024 of abc"

    assert Hidden(["abc", "2024", "-7"])(text) == text


def test_of_too_many_values_the_whole_text_is_hidden() -> None:
    assert Hidden([f"value {n}" for n in range(MOST_VALUES + 1)])("any text") == MASK


def test_json_stays_json_where_a_value_is_hidden_in_it() -> None:
    given = {"sum": 4111111111111111, "said": f"of {SECRET}", SECRET: [1.5, 4111111111111112]}

    hidden = json.loads(Hidden([SECRET, "4111111111111111"]).in_json(json.dumps(given)))

    assert hidden == {"sum": MASK, "said": f"of {MASK}", MASK: [1.5, 4111111111111112]}


# --- Errors


class Declined(Exception):
    """A user's own."""


def declined() -> Exception:
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise Declined(f"no {SECRET}") from error
    except Declined as error:
        error.add_note(f"a note on {SECRET}")
        return error


def test_an_error_is_shown_without_the_values_and_not_changed() -> None:
    error = declined()
    shown = "".join(traceback.format_exception(error))

    without = "".join(traceback.format_exception(stand_in(error, Hidden([SECRET]))))

    assert without == _without_marks(shown.replace(SECRET, MASK))
    assert str(error) == f"no {SECRET}"


def _without_marks(text: str) -> str:
    """Return a traceback without the marks below its lines."""
    return re.sub(r"(?m)^[ ~^]+\n", "", text)


def tracked(error: BaseException) -> str:
    """Return the event that Sentry gets of an error."""
    event, _ = event_from_exception(error)
    return json.dumps(serialize(event), default=repr)


def test_the_local_variables_of_its_frames_are_shown_without_the_values() -> None:
    def fail(card: str, pin: str) -> None:
        copied, harmless = {"of": [card]}, "-".join(["to", "be", "seen"])
        assert copied and harmless and pin
        raise ValueError("no")

    try:
        fail(SECRET, "12")
    except ValueError as raised:
        error = raised

    shown = tracked(stand_in(error, Hidden([SECRET])))

    assert SECRET in tracked(error)
    assert SECRET not in shown
    assert "to-be-seen" in shown
    assert "'12'" not in shown
    assert '"function": "fail"' in shown
    assert "to-be-seen" not in tracked(stand_in(error, Hidden([SECRET], keeps_locals=False)))
    assert "to-be-seen" not in tracked(stand_in(error, Hidden([], keeps_locals=False)))


def test_the_members_of_a_group_of_errors_are_shown_without_the_values() -> None:
    group = ExceptionGroup(f"all of {SECRET}", [declined(), ValueError("other")])

    shown = "".join(traceback.format_exception(stand_in(group, Hidden([SECRET]))))

    assert SECRET not in shown
    assert f"a note on {MASK}" in shown
    assert "ValueError: other" in shown


def test_an_error_is_itself_where_nothing_is_hidden() -> None:
    error = declined()

    assert stand_in(error, Hidden([])) is error


def test_an_error_whose_text_can_not_be_had_costs_nothing_else() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise SystemExit

    error = Broken(SECRET)
    error.__cause__ = declined()

    assert SECRET not in "".join(traceback.format_exception(stand_in(error, Hidden([SECRET]))))
