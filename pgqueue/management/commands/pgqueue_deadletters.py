from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from pgqueue.engine.operate import BATCH
from pgqueue.management.arguments import folder, query
from pgqueue.management.bars import progress_bar
from pgqueue.management.databases import database_of
from pgqueue.management.operating import AGAIN, SAMPLE, STOPPED, heard, operate
from pgqueue.management.spark import Result, SparkCommand, add_unredacted, redaction
from pgqueue.worker.stopping import StopRequests

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DONE = {"replay": "replayed", "discard": "discarded"}


class Command(SparkCommand):
    help = (
        "Find dead letters with Spark SQL; then show, replay, discard or save them. The query "
        "may name deadletters, history and the other tables of the queue."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--sql",
            type=query,
            required=True,
            metavar="QUERY",
            help="Such as: SELECT id FROM deadletters WHERE error_class = 'TimeoutError'",
        )
        verbs = parser.add_mutually_exclusive_group()
        verbs.add_argument(
            "--replay",
            dest="verb",
            action="store_const",
            const="replay",
            help="Make them ready, with all attempts again.",
        )
        verbs.add_argument(
            "--discard",
            dest="verb",
            action="store_const",
            const="discard",
            help="End them for good.",
        )
        verbs.add_argument(
            "--to",
            type=folder,
            metavar="DIR",
            help="Write the result of the query as Parquet into a new folder.",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="Change nothing; show what would be changed."
        )
        add_unredacted(parser)
        super().add_arguments(parser)

    def run(self, url: str, options: Mapping[str, Any]) -> Result:
        """Run the query, and apply the chosen verb to its rows."""
        from pgqueue.spark.backfill import name_tables

        spark = self.session(options)
        name_tables(spark, options["sql"], url=url, redact=redaction(options))
        frame = spark.sql(options["sql"])
        verb = options["verb"]
        if verb and "id" not in frame.columns:
            raise CommandError("The query must return a column id.")
        if options["dry_run"] or not (verb or options["to"]):
            return _look(frame, verb, style=options["format"])
        if options["to"]:
            frame.write.mode("errorifexists").parquet(options["to"])
            count = spark.read.parquet(options["to"]).count()
            text = f"{count} rows are in {options['to']}."
            return Result(text, {"to": options["to"], "found": count})
        return _operate(frame, verb, alias=database_of(options["database"]))


def _look(frame: DataFrame, verb: str | None, *, style: str) -> Result:
    sample: list[dict[str, Any]] = []
    if style == "text":
        frame.show(truncate=False)
    else:
        sample = [row.asDict(recursive=True) for row in frame.take(SAMPLE)]
    count = frame.count()
    change = f"would be {DONE[verb]}" if verb else "were found"
    return Result(
        f"{count} rows {change}. Nothing was changed.",
        {"verb": verb, "dry_run": True, "found": count, "sample": sample},
    )


def _operate(frame: DataFrame, verb: str, *, alias: str) -> Result:
    ids = frame.select("id").distinct().cache()
    total = ids.count()
    with (
        closing(StopRequests()) as requests,
        heard(requests),
        progress_bar("dead letters") as show,
    ):
        tally = operate(
            _batches(row.id for row in ids.toLocalIterator()),
            verb,
            alias=alias,
            show=lambda tried: show(tried, total),
            is_to_stop=lambda: requests.count > 0,
        )
    is_stopped = requests.count > 0
    text = tally.said(DONE[verb], "not dead any more")
    return Result(
        f"{text} {AGAIN}" if is_stopped else text,
        tally.counted(verb, is_stopped=is_stopped),
        STOPPED if is_stopped else int(tally.busy > 0),
    )


def _batches(ids: Iterator[int]) -> Iterator[list[int]]:
    while batch := list(islice(ids, BATCH)):
        yield batch
