from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from pgqueue.management.arguments import folder, moment, objective, path, source, text
from pgqueue.management.spark import Result, SparkCommand, pipeline_errors

if TYPE_CHECKING:
    from pgqueue.spark.pipeline.sources import Source
    from pgqueue.spark.report import Report

PARQUET = "parquet"


class Command(SparkCommand):
    help = (
        "Make a report of the ended messages with Spark: their outcomes, waits, run times and "
        "errors, and the effect of more workers. Print a summary."
    )
    # Spark keeps the ended messages in memory while it makes tables from them.
    conf = {
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        sources = parser.add_mutually_exclusive_group()
        sources.add_argument(
            "--from",
            dest="folder",
            type=folder,
            metavar="DIR",
            help="Read the folder of an export, or a URL such as s3a://bucket/folder.",
        )
        sources.add_argument(
            "--live", action="store_true", help="Read the queue itself. This is the default."
        )
        parser.add_argument(
            "--from-format",
            choices=[PARQUET, "ducklake", "delta", "iceberg"],
            default=PARQUET,
            help="The format of the tables in --from DIR (%(default)s).",
        )
        parser.add_argument(
            "--catalog",
            type=text,
            metavar="URL",
            help="The catalog of the lake in --from DIR, as pgqueue_export takes it.",
        )
        parser.add_argument(
            "--source",
            type=source,
            metavar="NAME",
            help="The source to report on, if the lake in --from DIR has several.",
        )
        parser.add_argument(
            "--since",
            type=moment,
            metavar="TIME",
            help="Messages that ended at or after this time (all).",
        )
        parser.add_argument(
            "--until",
            type=moment,
            metavar="TIME",
            help="Messages that ended before this time (all).",
        )
        parser.add_argument(
            "--objective",
            type=objective,
            action="append",
            default=[],
            metavar="CHANNEL=SECONDS[:SHARE]",
            help="A share of a channel's messages must succeed within a number of seconds "
            "(=60:0.99, for all channels that are not named). May be repeated.",
        )
        parser.add_argument("--html", type=path, metavar="FILE", help="Write a page with plots.")
        parser.add_argument(
            "--tables", type=path, metavar="DIR", help="Write every table into a file."
        )
        parser.add_argument(
            "--tables-format",
            choices=("csv", "parquet"),
            default="csv",
            help="The format of the files of --tables (%(default)s).",
        )
        super().add_arguments(parser)

    def run(self, url: str, options: Mapping[str, Any]) -> Result:
        """Make the report, and write the requested files."""
        from pgqueue.spark.pipeline.material import Objective
        from pgqueue.spark.pipeline.objectives import DEFAULT
        from pgqueue.spark.report import build
        from pgqueue.spark.summary import text as summary

        since, until = options["since"], options["until"]
        if since and until and since >= until:
            raise CommandError(f"--since ({since}) must be before --until ({until}).")
        given = {name: Objective(limit, share) for name, limit, share in options["objective"]}
        with _status(sys.stderr.isatty()) as show, source_of(url, options) as read_from:
            report = build(
                self.session(options),
                read_from,
                since=since,
                until=until,
                objectives={**DEFAULT, **given},
                progress=show,
            )
        try:
            if options["tables"]:
                _write_tables(report, options["tables"], options["tables_format"])
            if options["html"]:
                _write_page(report, options["html"])
        except OSError as error:
            raise CommandError(str(error)) from error
        said = summary(report)
        if options["html"]:
            said += f"\nThe report as a page: {options['html']}"
        return Result(said, _document(report))


@contextmanager
def source_of(url: str, options: Mapping[str, Any]) -> Iterator[Source]:
    """Yield the source of the report; for a lake, a copy of its tables in Parquet."""
    from pgqueue.spark.pipeline.runs import DEADLETTERS, HISTORY
    from pgqueue.spark.pipeline.sources import Folder, Live

    of, tables_format = options["folder"], options["from_format"]
    if tables_format == PARQUET:
        for name in ("catalog", "source"):
            if options[name]:
                raise CommandError(f"--{name} needs --from-format ducklake, delta or iceberg.")
        yield Folder(of) if of else Live(url)
        return
    if not of:
        raise CommandError(f"--from-format {tables_format} needs --from DIR.")
    since, until = options["since"], options["until"]
    with TemporaryDirectory(prefix="pgqueue-report-") as folder:
        with pipeline_errors():
            from pgqueue.lake.copies import copy

            copy(
                url=url,
                of=of,
                tables_format=tables_format,
                tables={"history": HISTORY, "deadletters": DEADLETTERS},
                into=Path(folder),
                catalog=options["catalog"],
                source=options["source"] or "",
                since=since and since.date(),
                until=until and until.date(),
            )
        yield Folder(folder, of)


def _write_tables(report: Report, into: Path, kind: str) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for name, table in report.tables.items():
        file = into / f"{name}.{kind}"
        if kind == "csv":
            table.to_csv(file, index=False)
        else:
            table.to_parquet(file, index=False)


def _document(report: Report) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table, as pandas writes values of JSON."""
    return {
        name: json.loads(table.to_json(orient="records", date_format="iso"))
        for name, table in report.tables.items()
    }


def _write_page(report: Report, file: Path) -> None:
    from pgqueue.spark.page import render

    file.write_text(render(report), "utf-8")


@contextmanager
def _status(is_wanted: bool) -> Iterator[Callable[[str], None]]:
    """Show on a terminal the part of the report that is being made."""
    if not is_wanted:
        yield lambda title: None
        return
    from rich.console import Console

    with Console(stderr=True).status("Starting Spark") as status:
        yield lambda title: status.update(title)
