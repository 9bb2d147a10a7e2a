from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from django.core.management.base import CommandError

from pgqueue import backfills, registry
from pgqueue.connections import conninfo
from pgqueue.exceptions import BackfillConflict, InvalidArguments
from pgqueue.management.arguments import name, query, rate, whole
from pgqueue.management.arguments import task as task_path
from pgqueue.management.bars import progress_bar
from pgqueue.management.spark import Result, SparkCommand
from pgqueue.tasks import Task


class Command(SparkCommand):
    help = (
        "Enqueue a task for each row of a query, of files or of a table, with Spark: the columns "
        "are the task's arguments, by their names. Called again, it goes on where it was, and "
        "enqueues no row twice."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("task", type=task_path, help="The import path of the task.")
        parser.add_argument(
            "--from",
            dest="source",
            type=query,
            required=True,
            metavar="SOURCE",
            help="A query of Spark SQL, which knows history, deadletters and the other tables of "
            "the queue; or a path that ends in .parquet, .csv, .json or .orc; or such a format, a "
            "colon and a path; or jdbc:…",
        )
        parser.add_argument("--table", type=query, help="Of a source jdbc:….")
        parser.add_argument(
            "--name",
            type=name,
            help="Of the backfill: rows are enqueued once under one name (that of the task, and a "
            "hash of the source).",
        )
        parser.add_argument(
            "--rate", type=rate, metavar="N", help="Messages a second, at most (no limit)."
        )
        parser.add_argument(
            "--batch",
            type=whole(1),
            default=10_000,
            metavar="N",
            help="Messages that are enqueued in one transaction, at most (%(default)s).",
        )
        parser.add_argument(
            "--skip-invalid",
            action="store_true",
            help="Leave out rows that the task can't take, and print why; without it, such a row "
            "ends the command.",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="Enqueue nothing; show what would be."
        )
        super().add_arguments(parser)

    def run(self, url: str, options: Mapping[str, Any]) -> Result:
        """Stage the rows, if that was not done before, and enqueue those that are left."""
        task = _task(options)
        source = " ".join(filter(None, (options["source"], options["table"])))
        named = options["name"] or f"{task.name} {sha256(source.encode()).hexdigest()[:8]}"
        try:
            if options["dry_run"]:
                return self._look(task, options)
            found = backfills.begun(task, named, source=source)
            if found and found.ended_at:
                return _result(
                    named,
                    found,
                    f"{found.total} rows were done at {found.ended_at:%F %T} UTC. "
                    "To enqueue them again, give another --name.",
                )
            return self._go_on(task, named, source, options, found)
        except (BackfillConflict, InvalidArguments) as error:
            raise CommandError(str(error)) from error

    def _look(self, task: Task[..., Any], options: Mapping[str, Any]) -> Result:
        frame = self._load(task, options)
        if options["format"] == "text":
            frame.show(truncate=False)
        count = frame.count()
        text = f"{count} rows, each a call of {task.name}. Nothing was enqueued."
        return Result(text, {"dry_run": True, "task": task.name, "total": count})

    def _load(self, task: Task[..., Any], options: Mapping[str, Any]) -> Any:
        """Return the rows.

        Raises:
            InvalidArguments: their columns don't fit the task.
        """
        from pgqueue.spark.backfill import load

        backfills.check_may_be_open(task)
        frame = load(
            self.session(options),
            options["source"],
            url=conninfo(task.alias),
            table=options["table"],
        )
        task.codec.check_fit((), dict.fromkeys(frame.columns))
        return frame

    def _go_on(
        self,
        task: Task[..., Any],
        named: str,
        source: str,
        options: Mapping[str, Any],
        found: Any,
    ) -> Result:
        if found is None:
            from pgqueue.spark.backfill import stage

            staged = stage(self._load(task, options), url=conninfo(task.alias))
            found = backfills.begin(
                task,
                named,
                source=source,
                attempts=[each.attempt for each in staged],
                total=sum(each.rows for each in staged),
            )
        done, skipped = found.done, 0
        with progress_bar("rows") as show:

            def note(count: int) -> None:
                nonlocal done
                done += count
                show(done, found.total)

            def skip(error: InvalidArguments) -> None:
                nonlocal skipped
                skipped += 1
                self.stderr.write(f"Left out: {error}")

            backfills.release(
                task,
                named,
                rate=options["rate"],
                batch=options["batch"],
                skip=skip if options["skip_invalid"] else None,
                progress=note,
            )
        left_out = f" {skipped} rows were left out." if skipped else ""
        text = f"{done} of {found.total} rows are done.{left_out}"
        return _result(named, found, text, done=done, skipped=skipped)


def _result(named: str, found: Any, text: str, **counts: int) -> Result:
    document = {"dry_run": False, "name": named, "total": found.total, "done": found.done}
    return Result(f"{named}: {text}", {**document, "skipped": 0, **counts})


def _task(options: Mapping[str, Any]) -> Task[..., Any]:
    """Return the task that is to be called.

    Raises:
        CommandError: there is none of this name.
    """
    try:
        task = registry.find(options["task"])
    except ImportError as error:
        raise CommandError(f"{options['task']}: {error}") from error
    if task is None:
        raise CommandError(
            f"No task is called {options['task']!r} here: give the import path of a function that "
            "@task decorates, such as shop.tasks.send_receipt."
        )
    return task.using(database=options["database"]) if options["database"] else task
