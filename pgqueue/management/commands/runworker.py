import logging
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from datetime import timedelta
from typing import Any

import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from pgqueue.conf import settings
from pgqueue.worker.supervisor import Plan, Worker

LEVELS = {0: logging.ERROR, 1: logging.INFO, 2: logging.DEBUG, 3: logging.DEBUG}


class Command(BaseCommand):
    help = "Run tasks until SIGTERM or SIGINT. A second signal hands back at once what runs."
    # The project's own checks are for its deployment; a worker starts many times a day.
    requires_system_checks = ["pgqueue"]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--channel",
            action="append",
            metavar="NAME",
            help="serve this channel; may be repeated. Without it: every channel.",
        )
        parser.add_argument(
            "--exclude", action="append", default=[], metavar="NAME", help="don't serve this one."
        )
        parser.add_argument(
            "--threads", type=_count, metavar="N", help="tasks to run at once (PGQUEUE: THREADS)."
        )
        parser.add_argument(
            "--drain",
            action="store_true",
            help="stop when nothing is ready, running or waiting for a retry.",
        )
        parser.add_argument(
            "--grace",
            type=_seconds,
            metavar="S",
            help="seconds that running tasks have to end after a signal (PGQUEUE: GRACE).",
        )
        parser.add_argument(
            "--poll-only",
            action="store_true",
            help="don't LISTEN; chosen by itself behind a transaction pooler.",
        )
        parser.add_argument("--database", metavar="ALIAS", help="(PGQUEUE: DATABASE).")

    def handle(self, *args: Any, **options: Any) -> None:
        self._configure_logging(options["verbosity"])
        try:
            worker = Worker(self._plan(options))
        except psycopg.OperationalError as error:
            raise CommandError(f"The database can't be reached: {error}") from error
        if not worker.run():
            # Tasks that would not end were handed back: they must not keep the process.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)

    def _plan(self, options: dict[str, Any]) -> Plan:
        try:
            defaults = settings()
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        database = options["database"] or defaults.database
        if database not in connections:
            raise CommandError(
                f"DATABASES has no {database!r}, only {', '.join(map(repr, connections))}."
            )
        return Plan(
            database=database,
            channels=options["channel"],
            excluded=options["exclude"],
            threads=options["threads"] or defaults.threads,
            grace=defaults.grace if options["grace"] is None else options["grace"],
            drain=options["drain"],
            poll_only=options["poll_only"],
        )

    def _configure_logging(self, verbosity: int) -> None:
        """Show what happens, unless the project's LOGGING already says where to."""
        logger = logging.getLogger("pgqueue")
        if logger.handlers or logging.getLogger().handlers:
            return
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(LEVELS[verbosity])


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number of 1 or more.")
    return int(text)


def _seconds(text: str) -> timedelta:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < 1e9:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds.")
    return timedelta(seconds=seconds)
