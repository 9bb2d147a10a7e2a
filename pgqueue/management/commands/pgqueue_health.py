import json
from argparse import ArgumentParser
from dataclasses import asdict, fields
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError

from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of
from pgqueue.operating.health import (
    CHECKS,
    EXIT,
    HealthLimits,
    Status,
    examine,
    worst,
)
from pgqueue.values.escaping import on_one_line


class Command(QueueCommand):
    help = "Check the health of the queue. Exit status: 0; 1 for a warning; 2 for a failed check."
    # The command checks the queue, also if other checks of the project fail.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        known, whole, seconds = HealthLimits(), arguments.whole(), arguments.seconds
        parser.add_argument(
            "--check",
            action="append",
            choices=CHECKS,
            metavar="NAME",
            help=f"run only this check; may be repeated: {', '.join(CHECKS)}.",
        )
        parser.add_argument(
            "--host",
            type=arguments.name,
            metavar="NAME",
            help="count only the workers of this host.",
        )
        for name, kind, about in (
            ("min_workers", whole, "the least number of living workers that run tasks"),
            (
                "max_age",
                arguments.seconds,
                "the most seconds that a message may be ready; half of it: a warning",
            ),
            ("max_dead", whole, "the most dead letters"),
            ("max_late", seconds, "the most seconds that a duty may be due"),
            ("min_days", whole, "the fewest days of history made ahead; 0 days fail"),
            ("max_bloat", whole, "the most dead rows in the table of live messages"),
            (
                "max_horizon",
                arguments.seconds,
                "the most seconds that a transaction may keep dead rows there",
            ),
            (
                "max_connections",
                arguments.share,
                "the highest share of the server's connections in use",
            ),
            (
                "max_export",
                seconds,
                "the most seconds since the last export, if retention waits for it",
            ),
            (
                "max_lag",
                seconds,
                "the most seconds that a group's next event may wait; half of it: a warning",
            ),
            ("max_wal", whole, "the most megabytes that the WAL feed may be behind"),
            ("max_failing", seconds, "the most seconds for which a webhook's endpoint may fail"),
            (
                "max_locked",
                seconds,
                "the most seconds for which a session may keep a lock of the queue",
            ),
            ("max_busy", seconds, "the most seconds for which a worker may have no free thread"),
            ("max_notify", arguments.share, "the highest used share of the queue of notifications"),
        ):
            parser.add_argument(
                f"--{name.replace('_', '-')}",
                type=kind,
                default=getattr(known, name),
                metavar="N",
                help=f"{about} ({getattr(known, name)}).",
            )
        arguments.add_format(parser)
        arguments.add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        limits = HealthLimits(**{each.name: options[each.name] for each in fields(HealthLimits)})
        try:
            checks = examine(database_of(options["database"]), limits, options["check"])
        except (ImproperlyConfigured, CommandError) as error:
            # With its default status, the error would count as a warning.
            raise CommandError(str(error), returncode=EXIT[Status.FAILING]) from error
        status = worst(checks)
        if options["format"] == "json":
            found = {check.name: {**asdict(check), "name": check.name} for check in checks}
            self.stdout.write(json.dumps({"status": status, "checks": found}))
        else:
            self.stdout.write(f"pgqueue is {status}")
            for check in checks:
                self.stdout.write(f"{check.name:<14}{check.status:<9}{on_one_line(check.said)}")
        raise SystemExit(EXIT[status])
