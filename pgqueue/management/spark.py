from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from django.core.management.base import CommandError

from pgqueue.database.connections import conninfo
from pgqueue.management import arguments
from pgqueue.management.arguments import spark_option
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of
from pgqueue.redaction import Redaction
from pgqueue.tasks import redacting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def add_conf(parser: ArgumentParser) -> None:
    """Add the option for Spark's own options."""
    parser.add_argument(
        "--conf",
        type=spark_option,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="An option of Spark, such as spark.driver.memory=4g. May be repeated.",
    )


def add_unredacted(parser: ArgumentParser) -> None:
    """Add the option that turns redaction off."""
    parser.add_argument(
        "--unredacted",
        action="store_true",
        help="Redact nothing: show values that PGQUEUE['REDACT'] and tasks redact, and bodies of "
        "raw messages. They may contain passwords and tokens. Give the result only to people "
        "who may read the database.",
    )


def redaction(options: Mapping[str, Any]) -> Redaction | None:
    """Return the redaction that the options ask for; None: no redaction."""
    return None if options["unredacted"] else redacting.everything(database_of(options["database"]))


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Raise an error of Spark in the block, or its absence, as a CommandError."""
    try:
        import pgqueue.spark
        from pgqueue.spark.errors import reason
    except ImportError as error:
        raise CommandError(str(error)) from error
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (pgqueue.spark.SparkError, PySparkException, Py4JError) as error:
        raise CommandError(reason(error)) from error


@contextmanager
def pipeline_errors() -> Iterator[None]:
    """Raise an error of the data pipeline in the block as a CommandError; Spark is not needed."""
    from pgqueue.arrow.errors import PipelineError

    try:
        yield
    except (PipelineError, ImportError) as error:
        raise CommandError(str(error)) from error


@dataclass(frozen=True)
class Result:
    """The output of a command: a text, or a document as JSON; and the exit status."""

    text: str
    document: Mapping[str, Any]
    status: int = 0


class SparkCommand(QueueCommand):
    """A command that runs Spark; an error of Spark is one line."""

    requires_system_checks: list[str] = []
    conf: Mapping[str, str] = {}
    """Options of Spark for a session that this command starts; `--conf` overrides them."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_conf(parser)
        arguments.add_format(parser)
        arguments.add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        alias = database_of(options["database"])
        try:
            with self.errors(options):
                result = self.run(conninfo(alias), options)
        except psycopg.OperationalError as error:
            raise CommandError(f"The database is unreachable: {error}") from error
        is_json = options["format"] == "json"
        # Rows of a query may have values of any type.
        self.stdout.write(json.dumps(result.document, default=str) if is_json else result.text)
        if result.status:
            raise SystemExit(result.status)

    def run(self, url: str, options: Mapping[str, Any]) -> Result:
        """Run the command; return its output.

        Args:
            url: the URL of the database.
        """
        raise NotImplementedError

    def errors(self, options: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Return the context that raises errors of `run` as a CommandError."""
        return errors_in_one_line()

    def session(self, options: Mapping[str, Any]) -> SparkSession:
        """Return the session with the given options."""
        import pgqueue.spark

        return pgqueue.spark.session(**{**self.conf, **dict(options["conf"])})
