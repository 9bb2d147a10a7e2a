"""Run pgqueue as the neutral benchmark asks: `python -m pgqueue_bench.main`.

One process is producer and worker. A run that was repeated after a fault counts as two.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

import django
from django.core.management import call_command
from django.db import Error, connection

from .protocol import Sampler, describe, produce

MANIFEST = json.loads((Path(__file__).parent / "adapter.json").read_text())
GRACE_S = 2.0
"""The harness gives five seconds from a SIGTERM to the end."""


def main() -> None:
    """Migrate, and play the scenario."""
    os.environ["DJANGO_SETTINGS_MODULE"] = f"{__package__}.settings"
    os.environ.setdefault("PGQUEUE_GRACE", str(GRACE_S))
    django.setup()
    call_command("migrate", verbosity=0, stdout=sys.stderr)
    if os.environ.get("SCENARIO") != "migrate_only":
        _play()


def _play() -> None:
    from pgqueue import Channel  # which needs Django

    from . import tasks

    options, counts = tasks.options, tasks.counts
    channel = Channel(tasks.CHANNEL)
    stopping = threading.Event()

    def depth() -> int:
        try:
            return int(channel.stats().ready)
        except Error:
            connection.close()  # Django opens another one
            raise

    describe(MANIFEST, options, version=version("pgqueue"), schema_version=_migration())
    sampler = Sampler(MANIFEST["system"], options, counts, depth)
    sampler.start()
    producing = partial(produce, options, counts, stopping, depth=depth, enqueue=_enqueue)
    threading.Thread(target=producing, daemon=True).start()
    try:
        arguments = ["--async", str(options.workers), "--threads", "1", "--grace", str(GRACE_S)]
        call_command("runworker", *arguments, verbosity=0, stdout=sys.stderr)
    finally:
        stopping.set()
        sampler.stop()


def _enqueue(count: int) -> None:
    from .tasks import options, work

    try:
        work.enqueue_many([(time.time(), "x" * options.payload_bytes)] * count)
    except Exception:
        connection.close()  # Django opens another one
        raise


def _migration() -> str:
    from django.db.migrations.recorder import MigrationRecorder

    applied = MigrationRecorder.Migration.objects.filter(app="pgqueue").order_by("-name")
    return str(applied.values_list("name", flat=True)[0])


if __name__ == "__main__":
    main()
