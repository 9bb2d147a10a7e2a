"""The dashboard and the alert rules ask for what a scrape has."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from pgqueue.database.connections import borrow
from pgqueue.metrics import exposition, fleet
from tests import programs

DOCS = Path(__file__).parents[2] / "docs"
SUFFIXES = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"], "gauge": [""]}
MATCHER = re.compile(r"(\w+)(?:=~|!~|!=|=)\"")


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "grafana" / "pgqueue.json").read_text("utf-8"))
    return found


def of_the_dashboard() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]


def of_the_alerts() -> list[str]:
    text = (DOCS / "prometheus" / "alerts.yml").read_text("utf-8")
    found = re.findall(r"^ +expr: (?:>-\n)?((?:.+\n)(?:(?= {10}\S).+\n)*)", text, re.M)
    assert len(found) == text.count("- alert: ")
    return found


def of_streams() -> list[Metric]:
    """Return the figures that the driver of streaming queries tells, if PySpark is installed."""
    if not programs.have("pyspark"):
        return []
    from pgqueue.spark.queryfigures import QueryFigures

    return list(QueryFigures("", list).describe())


def told(which: Callable[[], Iterable[str]]) -> list[str]:
    """Return the queries whose figures can be told here."""
    return [query for query in which() if of_streams() or "pgqueue_stream_" not in query]


@pytest.fixture
def families(transactional_db: None) -> dict[str, Metric]:
    """Return the family of each name that a sample may have."""
    text, _ = exposition.of_the_queue("default", accept="")
    return {
        family.name + suffix: family
        for family in (*text_string_to_metric_families(text.decode()), *of_streams())
        for suffix in SUFFIXES[family.type]
    }


@pytest.mark.parametrize("which", [of_the_dashboard, of_the_alerts])
def test_every_query_names_metrics_that_a_scrape_has(which: Any, families: Any) -> None:
    queries = told(which)

    assert len(queries) > 10
    for query in queries:
        named = re.findall(r"\bpgqueue_\w+", query)
        assert named, query
        assert [name for name in named if name not in families] == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("which", [of_the_dashboard, of_the_alerts])
def test_every_query_names_labels_that_its_metrics_have(which: Any) -> None:
    with borrow("default") as borrowed:
        labels = {
            name: set(family._labelnames)  # type: ignore[attr-defined]
            for family in (*fleet.Fleet(borrowed).collect(), *of_streams())
            for name in (family.name, *(family.name + each for each in ("_total", "_bucket")))
        }
    known = set().union(*labels.values()) | {"le"}

    for query in told(which):
        for name, matchers in re.findall(r"(pgqueue_\w+)\{([^}]*)\}", query):
            asked = set(MATCHER.findall(matchers))
            base = re.sub(r"_(sum|count)$", "_bucket", name)
            assert asked <= labels[base], query
        for grouped in re.findall(r"by \(([^)]*)\)", query):
            assert set(re.split(r",\s*", grouped)) <= known, query


def test_the_dashboard_draws_each_metric_that_an_alert_rule_watches() -> None:
    def named(queries: Iterable[str]) -> set[str]:
        # Labels in brackets, and the names of rules, are no metrics.
        return {name for query in queries for name in re.findall(r"\bpgqueue_\w+", query)}

    assert named(of_the_alerts()) - named(of_the_dashboard()) == set()


def test_the_dashboard_has_no_two_panels_in_one_place() -> None:
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in dashboard()["panels"]]

    assert len(set(places)) == len(places) == len({p["id"] for p in dashboard()["panels"]})


@pytest.mark.docs  # by a library that comes with what builds the pages
def test_the_alert_rules_are_what_prometheus_reads() -> None:
    import yaml

    [group] = yaml.safe_load((DOCS / "prometheus" / "alerts.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]:
        assert {"alert", "expr", "labels", "annotations"} <= set(rule)
        assert rule["annotations"]["summary"] and rule["labels"]["severity"]
