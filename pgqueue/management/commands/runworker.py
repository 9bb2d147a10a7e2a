import logging
import sys
from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import psycopg
from django.core.management.base import BaseCommand, CommandError

from pgqueue.conf import MOST_THREADS, settings
from pgqueue.database.connections import connect
from pgqueue.management import arguments, cluster, port
from pgqueue.management.databases import database_of
from pgqueue.threads.service import Service
from pgqueue.values.names import AT_START
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.deadline import OVERRUN, STATUS, bound_interpreter_exit, exit_at_once
from pgqueue.worker.process import configure_logging
from pgqueue.worker.stopping import SIGNALS, ending_on_signals
from pgqueue.worker.supervisor import Supervisor
from pgqueue.worker.worker import Worker

COROUTINES = 100
MOST_COROUTINES = 100_000
MOST_PROCESSES = 1_000
GRACE_OF_RELOADS = timedelta(seconds=2)
LEVELS = {0: logging.ERROR, 1: logging.INFO, 2: logging.DEBUG, 3: logging.DEBUG}


class Command(BaseCommand):
    help = "Run tasks until SIGTERM, SIGINT or SIGHUP. A second signal releases running tasks."
    # Other checks of the project are for its deployment; a worker starts many times a day.
    requires_system_checks = [AT_START]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--channel",
            "--queue-name",
            action="append",
            type=arguments.channel,
            metavar="NAME",
            help="serve this channel; may be repeated. Without it: every channel.",
        )
        parser.add_argument(
            "--exclude",
            action="append",
            type=arguments.channel,
            default=[],
            metavar="NAME",
            help="do not serve this channel.",
        )
        parser.add_argument(
            "--threads",
            type=arguments.whole(most=MOST_THREADS),
            metavar="N",
            help="tasks to run at once (PGQUEUE: THREADS). 0: only do duties.",
        )
        parser.add_argument(
            "--processes",
            type=arguments.whole(least=1, most=MOST_PROCESSES),
            default=1,
            metavar="N",
            help="processes, each with its own threads.",
        )
        parser.add_argument(
            "--async",
            dest="coroutines",
            type=arguments.whole(most=MOST_COROUTINES),
            default=0,
            nargs="?",
            const=COROUTINES,
            metavar="N",
            help="async tasks to run at once, on an event loop beside the threads "
            "(%(const)s if no number is given).",
        )
        parser.add_argument(
            "--no-duties",
            dest="duties",
            action="store_false",
            help="only run tasks; leave all duties to other workers or to pgqueue_maintain.",
        )
        parser.add_argument(
            "--replication",
            action="store_true",
            help="also follow the WAL, as pgqueue_replication does, unless another process does.",
        )
        parser.add_argument(
            "--max-tasks",
            type=arguments.whole(least=1),
            metavar="N",
            help="replace a process after about this number of tasks.",
        )
        parser.add_argument(
            "--max-memory",
            type=arguments.whole(least=1),
            metavar="MB",
            help="replace a process that uses this amount of memory.",
        )
        parser.add_argument(
            "--max-age",
            type=arguments.lasting,
            metavar="S",
            help="replace a process about this number of seconds after its start; a run goes on to "
            "its end (with --executor spark: 3600).",
        )
        parser.add_argument(
            "--max-busy",
            type=arguments.lasting,
            metavar="S",
            help="report a process as stuck to probes if it had no free thread for this number of "
            "seconds. Give more than the longest task takes.",
        )
        parser.add_argument(
            "--reload",
            action=BooleanOptionalAction,
            default=False,
            help="replace a process when code has changed; for development.",
        )
        parser.add_argument(
            "--drain",
            action="store_true",
            help="stop when no message is ready, running or waiting for a retry; with status 1 if "
            "messages are left that no worker can claim.",
        )
        parser.add_argument(
            "--grace",
            type=arguments.duration,
            metavar="S",
            help="seconds that running tasks have to end after a signal (PGQUEUE: GRACE).",
        )
        parser.add_argument(
            "--poll-only",
            action="store_true",
            help="do not LISTEN; this is the default behind a transaction pooler.",
        )
        parser.add_argument(
            "--liveness-file",
            type=arguments.path,
            metavar="PATH",
            help="touch this file every second while the worker is healthy, for probes.",
        )
        port.add_arguments(parser)
        arguments.add_database(parser)
        cluster.add_arguments(parser)

    def run_from_argv(self, argv: list[str]) -> None:
        super().run_from_argv(argv)
        bound_interpreter_exit()

    def handle(self, *args: Any, **options: Any) -> None:
        with ending_on_signals(*SIGNALS):
            self._run(options)

    def _run(self, options: dict[str, Any]) -> None:
        level = LEVELS[options["verbosity"]]
        configure_logging(level)
        config = self._configuration(options)
        try:
            # Check before the first process: the supervisor would restart it again and again.
            connect(config.database, name="supervisor").close()
        except psycopg.OperationalError as error:
            raise CommandError(f"The database is unreachable: {error}") from error
        if options["executor"]:
            if not cluster.run(config, options, level=level):
                sys.exit(STATUS)
            return
        serving = port.opened(config)
        if config.is_supervised:
            supervisor = Supervisor(config, level=level)
            with serving(supervisor.snapshot):
                have_stopped = supervisor.run()
            if not have_stopped or supervisor.leaves_something:
                sys.exit(STATUS)
            return
        worker = Worker(config)
        with serving(worker.snapshot):
            have_ended = worker.run()
        if worker.holds_something:
            exit_at_once(STATUS)
        if worker.has_overrun:
            exit_at_once(OVERRUN)
        if not have_ended:
            exit_at_once()
        if worker.leaves_something:
            sys.exit(STATUS)

    def _configuration(self, options: dict[str, Any]) -> WorkerConfig:
        database = database_of(options["database"])
        defaults = settings()
        threads = defaults.threads if options["threads"] is None else options["threads"]
        if options["coroutines"] and not threads:
            raise CommandError("--async needs --threads, 1 or more: for tasks that don't await.")
        cluster.check_cluster_options(options, threads)
        port.check_port_options(options)
        if not threads and not options["duties"]:
            raise CommandError("--threads 0 with --no-duties would do nothing.")
        if options["replication"] and not defaults.fed_by:
            raise CommandError("--replication needs PGQUEUE['FEED'] to be 'wal'.")
        return WorkerConfig(
            database=database,
            channels=options["channel"],
            excluded=options["exclude"],
            threads=threads,
            coroutines=options["coroutines"],
            processes=options["workers"] or options["processes"],
            grace=self._grace(options, defaults.grace),
            duties=options["duties"],
            services=_services(options),
            drain=options["drain"],
            poll_only=options["poll_only"],
            max_tasks=options["max_tasks"],
            max_memory=options["max_memory"],
            max_age=options["max_age"] or (cluster.MAX_AGE if options["executor"] else None),
            max_idle=options["max_idle"],
            max_busy=options["max_busy"],
            reload=options["reload"],
            liveness_file=options["liveness_file"],
            metrics_port=options["metrics_port"],
            metrics_address=options["metrics_address"] or port.ADDRESS,
        )

    def _grace(self, options: dict[str, Any], default: timedelta) -> timedelta:
        if options["grace"] is not None:
            return cast(timedelta, options["grace"])
        return min(default, GRACE_OF_RELOADS) if options["reload"] else default


def _services(options: dict[str, Any]) -> list[Callable[[str], Service]]:
    """Return the services that each process has beside a worker's own services."""
    if not options["replication"]:
        return []
    from pgqueue.replication.feed import WalFeed

    return [WalFeed]
