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
    help = "Say whether the queue is well. Exits with 0, 1 for a warning, 2 if something fails."
    # It tells of the queue, whatever else may be wrong with the project.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        known, whole, seconds = HealthLimits(), arguments.whole(), arguments.seconds
        parser.add_argument(
            "--check",
            action="append",
            choices=CHECKS,
            metavar="NAME",
            help=f"only this; may be repeated: {', '.join(CHECKS)}.",
        )
        parser.add_argument(
            "--host", type=arguments.name, metavar="NAME", help="count this host's workers alone."
        )
        for name, kind, about in (
            ("min_workers", whole, "workers alive that run tasks, or it fails"),
            (
                "max_age",
                arguments.seconds,
                "seconds that a message may be ready, or it fails; half: a warning",
            ),
            ("max_dead", whole, "dead letters"),
            ("max_late", seconds, "seconds that a duty may be due, or it fails"),
            ("min_days", whole, "days of history made ahead; none fails"),
            ("max_bloat", whole, "dead rows in the table of live messages"),
            (
                "max_horizon",
                arguments.seconds,
                "seconds that a transaction may keep dead rows there",
            ),
            ("max_connections", arguments.share, "the share of the server's connections in use"),
            ("max_export", seconds, "seconds since the last export, where retention waits for it"),
            (
                "max_lag",
                seconds,
                "seconds that a group's next event may have waited, or it fails; half: a warning",
            ),
            ("max_wal", whole, "megabytes that the WAL feed may be behind"),
            ("max_failing", seconds, "seconds for which a webhook's endpoint may have failed"),
            ("max_locked", seconds, "seconds for which a session may keep a lock of the queue"),
            ("max_busy", seconds, "seconds for which a worker may have had no free thread"),
            ("max_notify", arguments.share, "the share of the queue of notifications that is full"),
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
            # It would be a warning otherwise.
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
