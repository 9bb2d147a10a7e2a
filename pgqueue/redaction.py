"""Redact JSON: values under certain names, or at certain places, are replaced by `MASK`.

It works on the text and not on parsed values: numbers stay as they are, and the beginning of a
document that was cut off is redacted, too. Django is not imported, since Spark's executors use
this.

The rule for names follows Sentry's and Django's: what is compared is whole words, so that
`access_token`, `accessToken` and `X-Access-Token` are tokens, while `token_count` is not.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias

from pgqueue.values.error_words import text_of

MASK = "[redacted]"
"""It is shown in place of a value."""
FIELDS = (
    # Values that give access …
    *("password", "passwords", "passwd", "passphrase", "pwd", "passcode", "pin", "otp"),
    *("secret", "secrets", "token", "tokens", "credential", "credentials", "authorization"),
    *("api_key", "access_key", "private_key", "secret_key", "signing_key", "encryption_key"),
    *("cookie", "cookies", "session_id", "session_key", "csrf", "jwt"),
    # … also where names are written as one word …
    *("access_token", "auth_token", "refresh_token", "csrf_token", "csrfmiddlewaretoken"),
    *("client_secret", "set_cookie"),
    # … and what payment cards and offices forbid to show.
    *("card_number", "credit_card", "cvc", "cvv", "ssn"),
)
"""The names of fields that are redacted by default."""
LEAST_TEXT, LEAST_DIGITS = 4, 6
"""Characters of a text, and digits of a number, that are looked for in other texts."""
HEAD = 32
"""Characters by which a longer value is found, even where its end was cut off."""
MOST_VALUES = 1000
"""Values that are looked for in other texts; of more, the whole text is redacted."""
MOST_SHOWN = 32 * 1024
"""Characters of an error's text that are looked through: half of that is stored."""

Tree: TypeAlias = "Mapping[str, Tree | None]"
"""Places in JSON: names, and what is below each; None: all of it is redacted. In a list, each item
is at the place of the list, unless there are places such as "[0]", or "[*]" for all others. In an
object, "[*]" is for all other names.
"""
NOWHERE: Tree = {}

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_NEW_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BETWEEN = re.compile(r"[\W_]+")
_NO_LETTERS = bytes(each for each in range(128) if not chr(each).isalnum())
_NUMBER = re.compile(r"-?[0-9]")


def as_fields(value: Any) -> tuple[str, ...]:
    """Return `value` if it can be the names of fields that are redacted.

    Raises:
        TypeError: it is no list of texts.
        ValueError: a name has no letter and no digit.
    """
    if not isinstance(value, list | tuple):
        raise TypeError("it must be a list of names.")
    for name in value:
        if not isinstance(name, str):
            raise TypeError(f"{name!r:.99} is no name.")
        if not _plain(name):
            raise ValueError(f"the name {name!r} has no letter.")
    return tuple(value)


def as_paths(value: Any) -> tuple[str, ...]:
    """Return `value` if it can be paths to what is redacted: names with dots between them.

    Raises:
        TypeError: it is no list of texts.
        ValueError: there is nothing before, behind or between dots.
    """
    if not isinstance(value, list | tuple):
        raise TypeError('it must be a list of names: ["card", "user.email"].')
    for path in value:
        if not isinstance(path, str):
            raise TypeError(f"{path!r:.99} is no name.")
        if not all(path.split(".")):
            raise ValueError(f"the path {path!r} has an empty name.")
    return tuple(value)


def is_masked(value: Any) -> bool:
    """Return whether JSON has `MASK` in it: it was copied from a place that redacts values."""
    return MASK in json.dumps(value, ensure_ascii=False, default=str)


def tree_of(paths: Iterable[str]) -> dict[str, Any]:
    """Return paths as a tree."""
    tree: dict[str, Any] = {}
    for path in paths:
        node: dict[str, Any] | None = tree
        *names, last = path.split(".")
        for name in names:
            node = None if node is None else node.setdefault(name, {})
        if node is not None:  # else a node above is redacted
            node[last] = None
    return tree


@dataclass(frozen=True)
class Redactor:
    """Redacts JSON texts.

    Args:
        fields: names of fields that are redacted at any depth (see the module).
        tree: places that are redacted beside these; None: everything.
    """

    fields: tuple[str, ...] = FIELDS
    tree: Tree | None = field(default_factory=lambda: NOWHERE, hash=False)

    def redact(self, text: str) -> str:
        """Return a JSON text, or the beginning of one, with `MASK` for what is redacted."""
        return "".join(self._pieces(text))

    def values(self, text: str) -> list[str]:
        """Return the texts and numbers in what is redacted of a JSON text."""
        return [value for start, end in self._spans(text) for value in _scalars(text[start:end])]

    def _pieces(self, text: str) -> Iterator[str]:
        before = 0
        for start, end in self._spans(text):
            yield text[before:start]
            yield f'"{MASK}"'
            before = end
        yield text[before:]

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where each value begins and ends that is redacted."""
        if not self.may_redact(text):
            return
        open_: list[_OpenContainer] = []
        tokens = _TOKEN.finditer(text)
        for token in tokens:
            kind = text[token.start()]
            if kind in "}]":
                if open_:
                    open_.pop()
            elif kind == ",":
                if open_:
                    open_[-1].go_on()
            elif kind == ":":
                continue
            elif open_ and open_[-1].awaits_name:
                open_[-1].name(_text(token[0]), self.is_field)
            else:
                below = open_[-1].below() if open_ else self.tree
                if below is None:
                    if token[0] != "null":
                        yield token.start(), _end(text, token, tokens)
                elif kind in "{[":
                    open_.append(_OpenContainer(below, is_list=kind == "["))

    @property
    def is_idle(self) -> bool:
        """Whether nothing is redacted, whatever a text says."""
        return self.tree == NOWHERE and not self._names

    def may_redact(self, text: str) -> bool:
        """Return whether something of a JSON text may be redacted: what matches `mention` may."""
        if self.tree != NOWHERE:
            return True
        # `mention` itself takes a thousand times as long: it tries each name at each character.
        written = text.lower()
        if written.isascii():
            plain = written.encode().translate(None, _NO_LETTERS).decode()
        else:
            plain = _BETWEEN.sub("", written)
        return any(name in plain for name in self._names)

    @cached_property
    def mention(self) -> re.Pattern[str]:
        """A pattern of each JSON text with a field of the given names, and of few other texts."""
        names = ("[\\W_]*".join(map(_any_case, name)) for name in sorted(self._names))
        return re.compile("|".join(names) or "(?!)", re.IGNORECASE)

    def is_field(self, name: str) -> bool:
        """Return whether a field of this name is redacted."""
        return _is_one_of(name, self._names)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(map(_plain, self.fields))


class _OpenContainer:
    """An object or a list whose end was not read yet."""

    __slots__ = ("_index", "_name", "_next", "_tree", "awaits_name")

    def __init__(self, tree: Tree, *, is_list: bool) -> None:
        self._tree = tree
        self._index = 0 if is_list else None
        self._name: str | None = None
        self._next: Tree | None = tree
        self.awaits_name = not is_list

    def go_on(self) -> None:
        if self._index is None:
            self.awaits_name = True
        else:
            self._index += 1

    def name(self, name: str, is_field: Callable[[str], bool]) -> None:
        # A tag of the codec says of which type a value is: {"@": "tuple", "value": […]}.
        is_tagged, self._name = (self._name, name) == ("@", "value"), name
        self.awaits_name = False
        if not is_tagged:
            others = self._tree.get("[*]", NOWHERE)
            self._next = None if is_field(name) else self._tree.get(name, others)
        else:
            self._next = self._tree

    def below(self) -> Tree | None:
        if self._index is None or not self._tree:
            return self._next
        if not any(name.startswith("[") for name in self._tree):
            return self._tree
        others = self._tree.get("[*]", NOWHERE)
        return self._tree.get(f"[{self._index}]", others)


def _end(text: str, first: re.Match[str], tokens: Iterator[re.Match[str]]) -> int:
    """Return where a value ends, having read all of it."""
    depth, token = 0, first
    while True:
        kind = text[token.start()]
        depth += (kind in "{[") - (kind in "}]")
        if depth <= 0:
            return token.end()
        following = next(tokens, None)
        if following is None:
            return len(text)
        token = following


def _scalars(text: str) -> Iterator[str]:
    """Yield the texts and numbers of a JSON value, without the names in it."""
    last: str | None = None
    for token in _TOKEN.finditer(text):
        if last is not None and token[0] != ":":
            yield last
        last = None
        if token[0][0] == '"':
            last = _text(token[0])
        elif _NUMBER.match(token[0]):
            yield token[0]
    if last is not None:
        yield last


def _text(token: str) -> str:
    """Return the text of a JSON string, even where its end was cut off."""
    if "\\" in token:
        try:
            return str(json.loads(token))
        except ValueError:
            pass
    return token[1:].removesuffix('"')


def _plain(name: str) -> str:
    # İ in lower case is an i and a dot above, which is no letter.
    return _BETWEEN.sub("", name.lower())


def _any_case(letter: str) -> str:
    """Return a pattern of a small letter, for an engine that ignores case: Arrow's forgets İ."""
    return "[iİ]" if letter == "i" else re.escape(letter)


@lru_cache(maxsize=10_000)
def _is_one_of(name: str, names: frozenset[str]) -> bool:
    """Return whether the last words of a name are one of some names, which are written plainly."""
    words = _BETWEEN.split(_NEW_WORD.sub("_", name).lower().strip("_").rstrip("0123456789"))
    words = [word for word in words if word]
    return any("".join(words[number:]) in names for number in range(len(words)))


class Hidden:
    """Hides values in texts where they occur literally, such as the texts of errors.

    Short ones, and parts of a value but for its beginning, are not found.

    Args:
        values: texts and numbers, as `Redactor.values` returns them.
        keeps_locals: whether error trackers are shown the local variables of frames, without the
            values.
    """

    def __init__(self, values: Iterable[str], *, keeps_locals: bool = True) -> None:
        self.keeps_locals = keeps_locals
        self._values = {each for each in values if _is_sought(each)}

    def __bool__(self) -> bool:
        return bool(self._values)

    def __call__(self, text: str) -> str:
        """Return a text without the values."""
        if len(self._values) > MOST_VALUES:
            return MASK
        for form in self._forms:
            text = _without(text, form)
        return text

    def said(self, error: BaseException) -> str:
        """Return the text of an error without the values."""
        return self.shown(text_of(lambda: str(error)))

    def shown(self, text: str) -> str:
        """Return the beginning of a text without the values: of errors no more is kept."""
        if len(text) <= MOST_SHOWN:
            return self(text)
        # Of a value that was cut off, the beginning may be too short to be found.
        return self(text[:MOST_SHOWN])[:-HEAD] + "…"

    def in_json(self, text: str) -> str:
        """Return a JSON text, or the beginning of one, without the values."""
        return _TOKEN.sub(self._token, text) if self._values else text

    def in_value(self, value: Any) -> Any:
        """Return parsed JSON without the values."""
        if not self._values:
            return value
        return json.loads(self.in_json(json.dumps(value, ensure_ascii=False)))

    def _token(self, match: re.Match[str]) -> str:
        token = match[0]
        if token[0] == '"':
            text = _text(token)
            hidden = self(text)
            return token if hidden == text else json.dumps(hidden, ensure_ascii=False)
        return f'"{MASK}"' if token in self._values else token

    @cached_property
    def _forms(self) -> list[str]:
        """How the values look in texts, the longest first."""
        forms = {form for value in self._values for form in _looks(value)}
        return sorted(forms, key=lambda form: (-len(form), form))


def _is_sought(value: str) -> bool:
    if _NUMBER.match(value) and value.strip("-").isdecimal():
        return len(value) >= LEAST_DIGITS
    return len(value) >= LEAST_TEXT


def _looks(value: str) -> set[str]:
    return {
        value,
        repr(value)[1:-1],
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        reprlib.repr(value)[1:-1],
    }


def _without(text: str, form: str) -> str:
    head, start = form[:HEAD], 0
    while (found := text.find(head, start)) >= 0:
        pairs = zip(text[found:], form, strict=False)
        end = found + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        text = text[:found] + MASK + text[end:]
        start = found + len(MASK)
    return text


class RedactionRules(NamedTuple):
    """The redactors of the columns of a message."""

    payload: Redactor
    result: Redactor
    others: Redactor

    @classmethod
    def of(
        cls, fields: tuple[str, ...], payload: Tree = NOWHERE, result: Tree | None = NOWHERE
    ) -> RedactionRules:
        """Return rules by the names of fields, and by places in a payload and a result."""
        return cls(Redactor(fields, payload), Redactor(fields, result), Redactor(fields))

    def redact(self, columns: Mapping[str, str | None]) -> tuple[dict[str, str | None], Hidden]:
        """Return redacted JSON columns of a message, and a `Hidden` for other texts.

        A value that is redacted in one column is also hidden where it occurs literally in others.

        Args:
            columns: JSON texts, or their beginnings, by name: payload, metadata, result and so on;
                also with "_text" behind it.
        """
        given = {name: text for name, text in columns.items() if text is not None}
        hidden = Hidden(value for name in given for value in self._of(name).values(given[name]))
        shown = {name: hidden.in_json(self._of(name).redact(given[name])) for name in given}
        return {name: shown.get(name) for name in columns}, hidden

    def _of(self, column: str) -> Redactor:
        by = {"payload": self.payload, "result": self.result}
        return by.get(column.removesuffix("_text"), self.others)


@dataclass(frozen=True)
class Redaction:
    """The redaction of a project. The value can be sent to another process.

    Args:
        fields: names of fields.
        tasks: of some tasks, by name, the places in their payloads and in their results.
    """

    fields: tuple[str, ...] = FIELDS
    tasks: Mapping[str, tuple[Tree, Tree | None]] = field(default_factory=dict)

    @classmethod
    def from_json(cls, text: str) -> Redaction:
        """Return the redaction that `to_json` has written, or the one of a list of fields.

        Raises:
            TypeError, ValueError: it is something else.
        """
        said = json.loads(text)
        if isinstance(said, list):
            return cls(as_fields(said))
        if not isinstance(said, dict) or said.keys() != {"fields", "tasks"}:
            raise ValueError("it must be a list of names.")
        tasks = {name: (payload, result) for name, (payload, result) in said["tasks"].items()}
        return cls(as_fields(said["fields"]), tasks)

    def to_json(self) -> str:
        """Return it as a text."""
        return json.dumps({"fields": self.fields, "tasks": self.tasks})

    def rules(self, task: str | None) -> RedactionRules:
        """Return the rules of a task; without a known task, the rules of fields."""
        return self._rules.get(task or "", self._rules[""])

    @cached_property
    def _rules(self) -> Mapping[str, RedactionRules]:
        by_task = {
            name: RedactionRules.of(self.fields, *trees) for name, trees in self.tasks.items()
        }
        return {**by_task, "": RedactionRules.of(self.fields)}
