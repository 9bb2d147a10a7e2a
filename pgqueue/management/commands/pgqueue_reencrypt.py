from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from pgqueue.exceptions import MissingEncryptionKey
from pgqueue.management import arguments
from pgqueue.management.bars import progress_bar
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of
from pgqueue.management.operating import AGAIN, STOPPED, heard
from pgqueue.operating.reencryption import (
    BATCH,
    NAMED,
    ReencryptionReport,
    reencrypt,
)
from pgqueue.worker.stopping import StopRequests


class Command(QueueCommand):
    help = (
        "Encrypt messages with the first key of PGQUEUE['ENCRYPTION_KEYS'], if another key has "
        "encrypted them, or if they were stored before their task was encrypted. Workers may go "
        "on. The command may be stopped and run again. When it reports that all are under the "
        "first key, remove the other keys. Run it as the owner of the tables: other roles may not "
        "change history."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="change nothing; only count the messages."
        )
        parser.add_argument(
            "--batch",
            type=arguments.whole(1),
            default=BATCH,
            metavar="N",
            help="messages that one transaction reads (%(default)s).",
        )
        arguments.add_format(parser)
        arguments.add_database(parser)

    def handle(self, *args: Any, dry_run: bool, **options: Any) -> None:
        requests = StopRequests()
        try:
            with heard(requests), progress_bar("looked at") as show:
                report = reencrypt(
                    database_of(options["database"]),
                    dry_run=dry_run,
                    batch=options["batch"],
                    show=lambda count: show(count, count),
                    is_to_stop=lambda: requests.count > 0,
                )
        except (MissingEncryptionKey, ImportError) as error:
            raise CommandError(str(error)) from error
        finally:
            is_stopped = requests.count > 0
            requests.close()
        tell = _as_json if options["format"] == "json" else _in_words
        self.stdout.write(tell(report, dry_run=dry_run, is_stopped=is_stopped))
        if is_stopped:
            raise SystemExit(STOPPED)
        if report.busy or report.undecryptable:
            raise SystemExit(1)


def _as_json(report: ReencryptionReport, *, dry_run: bool, is_stopped: bool) -> str:
    return json.dumps(
        {
            "dry_run": dry_run,
            "found": report.found,
            "renewed": report.renewed,
            "current": report.current,
            "busy": len(report.busy),
            "busy_ids": sorted(report.busy)[:NAMED],
            "undecryptable": len(report.undecryptable),
            "undecryptable_ids": sorted(report.undecryptable)[:NAMED],
            "stopped": is_stopped,
        }
    )


def _in_words(report: ReencryptionReport, *, dry_run: bool, is_stopped: bool) -> str:
    verb = "would be brought" if dry_run else "brought"
    parts = [f"{report.renewed} {verb} under the first key", f"{report.current} were under it"]
    if report.busy:
        parts.append(f"{len(report.busy)} locked or changed by others, to be tried again "
                     f"({_named(report.busy)})")  # fmt: skip
    if report.undecryptable:
        parts.append(f"{len(report.undecryptable)} that no key decrypts "
                     f"({_named(report.undecryptable)})")  # fmt: skip
    rest = f"\n{AGAIN}" if is_stopped else ""
    return f"{', '.join(parts)}.{rest}"


def _named(ids: set[int]) -> str:
    named = ", ".join(f"#{id}" for id in sorted(ids)[:NAMED])
    return f"{named}, …" if len(ids) > NAMED else named
