from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from django.core.management.base import CommandError

from pgqueue.connections import conninfo
from pgqueue.management.arguments import spark_option, whole
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of

if TYPE_CHECKING:
    from pgqueue.spark.export import Progress


class Command(QueueCommand):
    help = (
        "Export history and dead letters to Parquet, by day, with Spark: what has ended since the "
        "last export to the same folder, each message once. It may be interrupted at any moment."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--to",
            required=True,
            metavar="DIR",
            help="A folder, or a URL that Spark can write to, such as s3a://bucket/folder.",
        )
        parser.add_argument(
            "--batch",
            type=whole(1),
            default=200_000,
            metavar="N",
            help="Messages that are written at a time, at most (%(default)s).",
        )
        parser.add_argument(
            "--conf",
            type=spark_option,
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="An option of Spark, such as spark.driver.memory=4g. May be repeated.",
        )
        parser.add_argument("--database", metavar="ALIAS", help="(PGQUEUE: DATABASE).")

    def handle(self, *args: Any, **options: Any) -> None:
        alias = database_of(options["database"])
        try:
            import pgqueue.spark
            from pgqueue.spark.errors import reason
            from pgqueue.spark.export import export
        except ImportError as error:
            raise CommandError(str(error)) from error
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            spark = pgqueue.spark.session(**dict(options["conf"]))
            with _progress_bar(sys.stderr.isatty()) as show:
                done = export(
                    spark,
                    url=conninfo(alias),
                    to=options["to"],
                    batch=options["batch"],
                    progress=show,
                )
        except (pgqueue.spark.SparkError, PySparkException, Py4JError) as error:
            raise CommandError(reason(error)) from error
        except psycopg.OperationalError as error:
            raise CommandError(f"The database can't be reached: {error}") from error
        self.stdout.write(
            f"{done.history} messages that ended, and {done.deadletters} dead letters, "
            f"are in {options['to']}."
        )


@contextmanager
def _progress_bar(is_wanted: bool) -> Iterator[Callable[[Progress], None]]:
    """Show on a terminal how far the export is."""
    if not is_wanted:
        yield lambda progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("history", total=None)
        yield lambda progress: bar.update(
            task, completed=progress.done, total=progress.waiting or None
        )
