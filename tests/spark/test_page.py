"""The report's page: complete, well-formed, readable without a network, whatever the texts are."""

from __future__ import annotations

import re
from datetime import timedelta
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from pgqueue.spark.page import SECTIONS, render
from pgqueue.spark.page.future import PLOTS
from pgqueue.spark.page.groups import ROWS
from pgqueue.spark.page.objectives import LINES
from pgqueue.spark.pipeline.errors import CLUSTERS
from pgqueue.spark.pipeline.forecast import LEAST
from tests.spark import reports

if TYPE_CHECKING:
    from pgqueue.spark.report import Report

pytestmark = pytest.mark.slow

KEYS = [
    *("time", "hours", "objectives", "channels", "tasks", "keys", "flows", "waits"),
    *("errors", "storms"),
    *("what-if", "changes", "forecast"),
]


VOID = {"meta", "link", "br", "wbr", "img"}


class Elements(HTMLParser):
    """All elements of a page, each closed where it must be; its text without script and style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data

    def of(self, *tags: str) -> list[dict[str, str | None]]:
        """Return the attributes of all elements of these names."""
        return [attributes for tag, attributes in self.found if tag in tags]


@pytest.fixture(scope="module")
def page() -> str:
    return render(reports.busy())


@pytest.fixture(scope="module")
def elements(page: str) -> Elements:
    return Elements(page)


def with_table(name: str, rows: list[dict[str, Any]]) -> Report:
    """Return an empty report, but for one table."""
    empty = reports.empty()
    frame = pd.DataFrame(rows, columns=reports.COLUMNS[name])
    return empty._replace(tables={**empty.tables, name: frame})


def summary(**values: object) -> dict[str, object]:
    """Return the one row of the table of totals."""
    return dict.fromkeys(reports.COLUMNS["summary"], None) | values


@pytest.mark.parametrize("report", [reports.busy(), reports.empty()], ids=["busy", "empty"])
def test_the_page_is_well_formed(report: Report) -> None:
    elements = Elements(render(report))

    ids = [each["id"] for _, each in elements.found if "id" in each]
    assert elements.open == []
    assert len(ids) == len(set(ids))


def test_every_section_is_there_and_in_the_table_of_contents(elements: Elements) -> None:
    links = [each["href"] for each in elements.of("a")]

    assert [each["id"] for each in elements.of("section")] == KEYS
    assert links[-len(KEYS) :] == [f"#{key}" for key in KEYS]
    assert len(SECTIONS) == len(KEYS)
    assert not [each for each in elements.of("section") if each.get("class") == "empty"]


def test_nothing_is_loaded_from_elsewhere(page: str, elements: Elements) -> None:
    loaded = [
        value
        for _, attributes in elements.found
        for name, value in attributes.items()
        if name in ("src", "srcset", "href", "action", "data", "poster", "xlink:href")
    ]
    style = page.partition("<style>")[2].partition("</style>")[0]

    assert [each for each in loaded if not re.match(r"#|data:,$", each or "")] == []
    assert not re.search(r"@import|url\(|fetch\(|https?://", style)
    assert not elements.of("iframe", "object", "embed", "img", "base")


def test_texts_from_the_queue_are_only_text(page: str, elements: Elements) -> None:
    assert len(elements.of("script")) == 1
    assert reports.HTML in elements.text
    assert "{{ 7 * 7 }} {% raw %} ${x}" in elements.text
    assert not re.search(r"[\x00\x1b]", page)
    handlers = [name for _, each in elements.found for name in each if name.startswith("on")]
    assert handlers == []


def test_texts_may_run_in_either_direction(page: str) -> None:
    arabic = re.escape(reports.ARABIC)

    assert len(re.findall(f">{arabic}", page)) == len(re.findall(rf"<bdi[^>]*>{arabic}", page)) > 0


def test_every_plot_is_described_for_those_who_do_not_see_it(elements: Elements) -> None:
    ids = {each.get("id") for _, each in elements.found}
    pictures = [each for each in elements.of("svg") if each.get("aria-hidden") != "true"]

    assert len(pictures) >= 8
    for picture in pictures:
        assert picture["role"] == "img"
        assert set(str(picture["aria-labelledby"]).split()) <= ids


def test_a_report_without_messages_says_why_each_section_is_empty() -> None:
    elements = Elements(render(reports.empty()))

    assert "No message ended in this period" in elements.text
    assert [each["class"] for each in elements.of("section")] == ["empty"] * len(KEYS)
    assert len(elements.of("section")) == len(
        [each for each in elements.of("p") if each.get("class") == "how"]
    )


@pytest.mark.parametrize("name", list(reports.COLUMNS))
def test_any_table_may_be_empty(name: str) -> None:
    few = {each: frame.head(20) for each, frame in reports.busy().tables.items()}
    few["task_durations"] = reports.busy().tables["task_durations"].head(0)

    page = render(reports.busy()._replace(tables={**few, name: reports.empty().tables[name]}))

    assert "</html>" in page


def test_any_number_may_be_missing() -> None:
    busy = reports.busy()
    tables = {name: frame.copy() for name, frame in busy.tables.items()}
    for frame in tables.values():
        for column in set(frame) - {"target", "hour"}:
            if pd.api.types.is_numeric_dtype(frame[column]):
                frame[column] = float("nan")

    text = Elements(render(busy._replace(tables=tables))).text

    assert not re.search(r"\b(nan|None|NaT)\b", text)


def test_the_page_of_a_million_messages_stays_small(page: str) -> None:
    assert len(page.encode()) < 1_000_000


def test_tables_of_thousands_of_rows_are_cut_and_say_so() -> None:
    busy = reports.busy()
    many = pd.concat([busy.tables["over_time"]] * 6, ignore_index=True)
    many["at"] = pd.date_range("2026-09-01", periods=len(many), freq="10min", tz="UTC")

    page = render(busy._replace(tables={**busy.tables, "over_time": many}))

    assert len(page.encode()) < 1_000_000
    assert f"{len(many) - 200} more rows are in the files" in Elements(page).text


def test_the_headline_says_how_the_queue_does() -> None:
    row = summary(messages=1_000_000, success_rate=0.992, wait_p50_s=0.012, wait_p99_s=1.4)

    text = Elements(render(with_table("summary", [row]))).text.replace("\u202f", " ")

    assert "99.2 % of 1 M messages succeeded." in text
    assert "Half began within 12 ms, 99 % within 1.4 s." in text
    assert "missed" not in text


def test_the_headline_names_the_channel_that_missed_its_objective() -> None:
    busy = reports.busy()

    text = Elements(render(busy)).text

    assert "Channel mail missed its objective." in text


def test_a_simulation_that_does_not_fit_the_past_is_said_not_to_be_trusted() -> None:
    busy = reports.busy()
    window = {"since": reports.UNTIL, "until": reports.UNTIL}
    simulation = {"measured_p99_s": 1.0, "simulated_p99_s": 1.3, "error": 0.3, **window}

    text = Elements(render(busy._replace(facts={**busy.facts, "simulation": simulation}))).text

    assert "too far to be trusted" in text
    assert "Four times as many workers:" not in text
    assert "from 24\u202fNov 09:30 to 24\u202fNov 09:30" in text
    assert "too far to be trusted" not in Elements(render(busy)).text


def test_the_busiest_hour_is_in_utc_and_has_most_of_its_bucket() -> None:
    busy = reports.busy()
    # Each bucket of an hour has ten minutes of one hour of the day, and fifty of the next one.
    at = pd.date_range("2026-11-20 10:50Z", periods=48, freq="h", tz="UTC")
    over_time = busy.tables["over_time"].head(48).assign(at=at, arrived=1)
    over_time.loc[30, "arrived"] = 7
    tables = {**busy.tables, "over_time": over_time}

    page = render(busy._replace(facts={**busy.facts, "bucket_s": 3600}, tables=tables))

    title = "The busiest hour began on 21\u202fNov at 17:00 UTC, with 7 arrivals"
    assert title in Elements(page).text


def test_a_report_of_few_hours_has_bars_for_the_hours_instead_of_a_heat_map() -> None:
    busy = reports.busy()
    few = busy.tables["over_time"].head(6)

    elements = Elements(render(busy._replace(tables={**busy.tables, "over_time": few})))

    assert "Most messages ended in the hour that begins at 00:00 UTC" in elements.text
    assert "heat" not in [each.get("class") for each in elements.of("figure")]


def test_what_needs_attention_is_named_first(elements: Elements) -> None:
    first = [each for each in elements.of("a") if each.get("class") is None][:4]

    assert [each["href"] for each in first] == ["#objectives", "#errors", "#storms", "#changes"]
    assert "Look at this first" not in Elements(render(reports.empty())).text


def test_a_section_whose_table_was_not_made_is_left_out() -> None:
    busy = reports.busy()
    tables = {name: frame for name, frame in busy.tables.items() if name != "errors"}

    elements = Elements(render(busy._replace(tables=tables)))

    assert [each["id"] for each in elements.of("section")] == [
        key for key in KEYS if key != "errors"
    ]
    assert "Nothing failed" not in elements.text


def test_one_of_a_kind_is_not_counted() -> None:
    busy = reports.busy()
    ones = {name: busy.tables[name].iloc[1:2] for name in ("slo", "retry_storms")}

    text = Elements(render(busy._replace(tables={**busy.tables, **ones}))).text

    assert "mail missed its objective" in text
    assert "The worst of" not in text


def test_long_names_break_after_their_dots() -> None:
    page = render(reports.busy())

    assert "shop.<wbr>tasks.<wbr>send_<wbr>receipt" in page
    assert Elements(page).text.count("shop.tasks.send_receipt") > 3


def test_the_report_of_an_export_draws_no_backlog_and_says_why() -> None:
    busy = reports.busy()
    over_time = busy.tables["over_time"].assign(backlog=pd.NA)
    nothing = busy.tables["forecast"].iloc[:0]
    tables = {**busy.tables, "over_time": over_time, "forecast": nothing}

    text = Elements(
        render(busy._replace(facts={**busy.facts, "has_live": False}, tables=tables))
    ).text

    assert "Backlog: due and not begun" not in text
    assert "at its peak" not in text.lower()
    assert "No message ever waited" not in text
    assert text.count("An export lacks the messages that still wait") == 2
    assert "Backlog: due and not begun" in Elements(render(busy)).text


def test_without_enough_of_the_past_the_forecast_says_how_much_it_needs() -> None:
    text = Elements(render(reports.empty())).text

    assert f"It needs more of the past: {LEAST} days at least." in text


def test_of_too_long_a_time_the_forecast_says_so() -> None:
    empty = reports.empty()
    facts = {**empty.facts, "bucket_s": 43_200}

    text = Elements(render(empty._replace(facts=facts))).text.replace("\u202f", " ")

    assert "It needs intervals of 6 h at most, but this report has longer ones" in text


def test_a_plot_of_fewer_channels_than_there_are_says_so() -> None:
    slo = dict.fromkeys(reports.COLUMNS["slo"], None)
    given = [
        {**slo, "channel": f"channel-{n}", "target": 0.9, "worst_burn": float(n)} for n in range(8)
    ]
    burns = [
        {"channel": f"channel-{n}", "at": reports.UNTIL - timedelta(hours=hour), "burn": float(n)}
        for n in range(8)
        for hour in (1, 2)
    ]
    report = with_table("slo", given)
    tables = {**report.tables, "slo_burn": pd.DataFrame(burns)}

    text = Elements(render(report._replace(tables=tables))).text

    drawn = text[text.index("Burn rate by hour") :].partition("Objectives")[0]
    assert drawn.startswith(f"Burn rate by hour (the worst {LINES} of 8)")
    assert "channel-7" in drawn
    assert "channel-2" not in drawn


def test_a_table_that_has_not_all_rows_is_not_counted_as_all() -> None:
    busy = reports.busy()
    by_task = busy.tables["by_task"]
    slowest = busy.tables["slowest_tasks"]
    assert ROWS < len(by_task) != len(slowest)
    row = dict.fromkeys(reports.COLUMNS["errors"], None) | {"error_class": "Oops", "attempts": 3}
    tables = {**busy.tables, "errors": pd.DataFrame([row] * CLUSTERS)}

    text = Elements(render(busy._replace(tables=tables))).text

    assert f"Share of all run time (the first {ROWS} of {len(by_task)})" in text
    assert f"Failed attempts (the first {ROWS} of {CLUSTERS} or more)" in text
    assert f"300 failed attempts of the {CLUSTERS} most frequent errors" in text


def test_the_tasks_that_changed_most_are_drawn() -> None:
    tasks = [f"task_{n}" for n in range(PLOTS + 2)]
    points = [
        {"task": task, "at": reports.UNTIL, "before_p50_s": 1.0, "after_p50_s": 2.0}
        | {"ratio": ratio, "messages_before": 9, "messages_after": 9}
        for task, ratio in zip(tasks, [1.4, 1.5, *[2.0] * (PLOTS - 1), 0.1], strict=True)
    ]
    lasted = [
        {"task": task, "at": reports.UNTIL - timedelta(hours=hour), "p50_s": 1.0}
        for task in tasks
        for hour in (2, 1)
    ]
    report = with_table("change_points", points)
    tables = {**report.tables, "task_durations": pd.DataFrame(lasted)}

    page = render(report._replace(tables=tables))

    text = Elements(page).text
    assert f"The {PLOTS} tasks of {PLOTS + 2} that changed most are drawn." in text
    section = text[text.index("The line is the median") :].partition("Change points")[0]
    assert f"task_{PLOTS + 1}" in section
    assert "task_0" not in section


def test_each_plot_of_names_stops_at_the_same_number() -> None:
    row = dict.fromkeys(reports.COLUMNS["slo"], None)
    given = [
        {**row, "channel": f"channel-{n}", "target": 0.9, "objective_s": 1.0, "attained": 0.5}
        | {"budget_left": -n / 10, "worst_burn": 1.0}
        for n in range(20)
    ]

    text = Elements(render(with_table("slo", given))).text
    drawn = text[text.index("Error budget that was spent") :].partition("Objectives")[0]

    assert drawn.startswith(f"Error budget that was spent (the first {ROWS} of 20)")
    # The worst.
    assert "channel-19" in drawn
    assert "channel-7" not in drawn
