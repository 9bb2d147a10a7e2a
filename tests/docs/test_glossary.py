"""The glossary has every term once, and names only what exists."""

import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
from django.apps import apps

import pgqueue
from pgqueue import models

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "internals" / "glossary.md"
TABLES = {model._meta.db_table for model in apps.get_app_config("pgqueue").get_models()}
WITHOUT_A_MODEL = {"pgqueue_identity", "pgqueue_lock", "pgqueue_reserved"}


class Term(NamedTuple):
    """A row of the glossary."""

    term: str
    meaning: str
    classes: list[str]
    tables: list[str]


def terms() -> list[Term]:
    """Return the rows of the page's tables."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("|") and not line.startswith(("|-", "| term "))
    ]
    assert all(len(row) == 5 for row in rows), [row for row in rows if len(row) != 5]
    return [
        Term(term, meaning, re.findall(r"`([^`]+)`", named), re.findall(r"`([^`]+)`", tables))
        for term, meaning, named, tables, _ in rows
    ]


TERMS = terms()
NAMED = Counter(name for term in TERMS for name in set(term.classes))


def public_classes() -> set[str]:
    """Return the classes that `pgqueue` itself exports, without exceptions."""
    stub = (ROOT / "pgqueue" / "__init__.pyi").read_text()
    exported = {name: getattr(pgqueue, name) for name in re.findall(r"import (\w+) as", stub)}
    return {
        name
        for name, each in exported.items()
        if isinstance(each, type) and not issubclass(each, BaseException)
    }


def test_each_term_has_one_row_and_a_meaning() -> None:
    repeated = [term for term, count in Counter(each.term for each in TERMS).items() if count > 1]

    assert len(TERMS) > 60
    assert not repeated
    assert all(each.term and each.meaning for each in TERMS)


@pytest.mark.parametrize("name", sorted(NAMED))
def test_each_class_exists(name: str) -> None:
    module, _, attribute = f"pgqueue.{name}".rpartition(".")

    assert callable(getattr(import_module(module), attribute))


def test_each_table_exists() -> None:
    named = {table for term in TERMS for table in term.tables}

    assert named - WITHOUT_A_MODEL <= TABLES


def test_each_model_is_in_a_row_with_its_table() -> None:
    for model in apps.get_app_config("pgqueue").get_models():
        rows = [term for term in TERMS if f"models.{model.__name__}" in term.classes]

        assert rows, f"models.{model.__name__} is missing in {PAGE.name}: add its term."
        assert model is models.Overview or any(model._meta.db_table in row.tables for row in rows)


def test_each_public_class_is_in_a_row() -> None:
    missing = public_classes() - NAMED.keys()

    assert not missing, f"{sorted(missing)} are missing in {PAGE.name}: add their terms."


def test_a_model_and_the_class_of_its_name_share_a_row() -> None:
    for name in public_classes() & {model for model in vars(models) if model in models.__all__}:
        assert any({name, f"models.{name}"} <= set(term.classes) for term in TERMS), name
