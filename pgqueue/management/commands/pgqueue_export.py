from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from django.core.management.base import CommandError

from pgqueue.connections import conninfo
from pgqueue.management.arguments import folder, spark_option, whole
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
        target = parser.add_mutually_exclusive_group(required=True)
        target.add_argument(
            "--to",
            type=folder,
            metavar="DIR",
            help="A folder, or a URL that Spark can write to, such as s3a://bucket/folder.",
        )
        target.add_argument(
            "--forget",
            type=folder,
            metavar="DIR",
            help="Export nothing; forget that there were exports to DIR, so that retention does "
            "not wait for another one. Its files stay.",
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
        except ImportError as error:
            raise CommandError(str(error)) from error
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        do = _forget if options["forget"] else _export
        try:
            said = do(conninfo(alias), options)
        except (pgqueue.spark.SparkError, PySparkException, Py4JError) as error:
            raise CommandError(reason(error)) from error
        except psycopg.OperationalError as error:
            raise CommandError(f"The database can't be reached: {error}") from error
        self.stdout.write(said)


def _forget(url: str, options: Mapping[str, Any]) -> str:
    """Forget a target; return what was done."""
    from pgqueue.spark.export import forget

    forget(url=url, to=options["forget"])
    return f"{options['forget']} is forgotten: retention does not wait for it any more."


def _export(url: str, options: Mapping[str, Any]) -> str:
    """Export to a target; return what was done."""
    import pgqueue.spark
    from pgqueue.spark.export import export

    spark = pgqueue.spark.session(**dict(options["conf"]))
    with _progress_bar(sys.stderr.isatty()) as show:
        done = export(spark, url=url, to=options["to"], batch=options["batch"], progress=show)
    return (
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
