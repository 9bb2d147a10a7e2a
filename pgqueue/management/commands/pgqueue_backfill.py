from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from hashlib import sha256
from reprlib import Repr
from typing import Any

from django.core.management.base import CommandError

from pgqueue.database.connections import conninfo
from pgqueue.exceptions import BackfillConflict, InvalidArguments
from pgqueue.management.arguments import encoding, name, query, rate, separator, text, whole
from pgqueue.management.arguments import task as task_path
from pgqueue.management.bars import progress_bar
from pgqueue.management.known_tasks import task_named
from pgqueue.management.spark import Result, SparkCommand
from pgqueue.operating import backfills
from pgqueue.tasks import Task
from pgqueue.values.escaping import on_one_line

CSV = ("separator", "encoding", "null")
"""The options of CSV files."""
SHOWN = 10
"""The most calls that a dry run shows."""
SHORTENED = Repr()
SHORTENED.maxstring = SHORTENED.maxother = SHORTENED.maxlong = 200
SHORTENED.maxdict = SHORTENED.maxlist = SHORTENED.maxtuple = 20


class Command(SparkCommand):
    help = (
        "Enqueue a task for each row of a query, of files or of a table, with Spark. The columns "
        "are the task's arguments, by their names. A repeated call continues the backfill, and "
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
            help="A query of Spark SQL, which may name history, deadletters and the queue's other "
            "tables; or a path that ends in .parquet, .csv, .json or .orc; or a format, a colon "
            "and a path; or jdbc:…",
        )
        parser.add_argument("--table", type=query, help="The table of a source jdbc:….")
        parser.add_argument(
            "--separator",
            type=separator,
            metavar="TEXT",
            help=r"The separator of cells in a CSV file; \t is a tab (a comma).",
        )
        parser.add_argument(
            "--encoding",
            type=encoding,
            metavar="NAME",
            help="The encoding of a CSV file, such as windows-1252 (UTF-8).",
        )
        parser.add_argument(
            "--null",
            type=text,
            metavar="TEXT",
            help="The text for NULL in a CSV file, beside an empty cell.",
        )
        parser.add_argument(
            "--name",
            type=name,
            help="The name of the backfill: rows are enqueued once under one name (the name of the "
            "task, and a hash of the source).",
        )
        parser.add_argument(
            "--rate", type=rate, metavar="N", help="The most messages a second (no limit)."
        )
        parser.add_argument(
            "--batch",
            type=whole(1),
            default=10_000,
            metavar="N",
            help="The most messages that are enqueued in one transaction (%(default)s).",
        )
        parser.add_argument(
            "--skip-invalid",
            action="store_true",
            help="Leave out rows that the task does not accept, and print the reasons; without it, "
            "the first one ends the command.",
        )
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="Enqueue nothing; show the first calls, and count them.",
        )
        super().add_arguments(parser)

    def run(self, url: str, options: Mapping[str, Any]) -> Result:
        """Stage the rows unless they were staged before; enqueue the remaining rows."""
        task = _task(options)
        csv = {name: options[name] for name in CSV if options[name] is not None}
        told = (f"--{name}={value}" for name, value in csv.items())
        source = " ".join(filter(None, (options["source"], options["table"], *told)))
        named = options["name"] or f"{task.name} {sha256(source.encode()).hexdigest()[:8]}"
        try:
            if options["dry_run"]:
                return self._look(task, options, csv)
            found = backfills.begun(task, named, source=source)
            if found and found.ended_at:
                return _result(
                    named,
                    found,
                    f"{found.total} rows were done at {found.ended_at:%F %T} UTC. "
                    "To enqueue them again, give another --name.",
                )
            if found is None:
                found = self._begin(task, named, source, self._load(task, options, csv))
            return self._release(task, named, options, found)
        except (BackfillConflict, InvalidArguments) as error:
            raise CommandError(str(error)) from error

    def _look(
        self, task: Task[..., Any], options: Mapping[str, Any], csv: Mapping[str, str]
    ) -> Result:
        from pgqueue.spark.backfill import first, source_of

        calls = self._load(task, options, csv)
        is_typed = source_of(options["source"]).is_typed
        shown = [_call(task, payload, is_typed) for payload in first(calls, SHOWN)]
        count = calls.frame.count()
        lines = [" ".join(each.values()) for each in shown]
        lines.append(f"{count} rows, each a call of {task.name}. Nothing was enqueued.")
        document = {"dry_run": True, "task": task.name, "total": count, "first": shown}
        return Result("\n".join(lines), document)

    def _load(
        self, task: Task[..., Any], options: Mapping[str, Any], csv: Mapping[str, str]
    ) -> Any:
        """Return the rows.

        Raises:
            InvalidArguments: the columns do not fit the task.
        """
        from pgqueue.spark.backfill import Csv, load

        backfills.check_may_be_open(task)
        calls = load(
            self.session(options),
            options["source"],
            url=conninfo(task.alias),
            table=options["table"],
            csv=Csv(**csv) if csv else None,
        )
        if calls.names is not None:
            task.codec.check_fit((), dict.fromkeys(calls.names))
        return calls

    def _begin(self, task: Task[..., Any], named: str, source: str, calls: Any) -> Any:
        from pgqueue.spark.backfill import stage

        staged = stage(calls, url=conninfo(task.alias))
        return backfills.begin(
            task,
            named,
            source=source,
            attempts=[each.attempt for each in staged],
            total=sum(each.rows for each in staged),
        )

    def _release(
        self, task: Task[..., Any], named: str, options: Mapping[str, Any], found: Any
    ) -> Result:
        from pgqueue.spark.backfill import source_of

        done, skipped = found.done, 0
        with progress_bar("rows") as show:

            def note(count: int) -> None:
                nonlocal done
                done += count
                show(done, found.total)

            def skip(error: InvalidArguments) -> None:
                nonlocal skipped
                skipped += 1
                self.stderr.write(on_one_line(f"Left out: {error}"))

            backfills.release(
                task,
                named,
                rate=options["rate"],
                batch=options["batch"],
                is_typed=source_of(options["source"]).is_typed,
                skip=skip if options["skip_invalid"] else None,
                progress=note,
            )
        left_out = f" {skipped} rows were left out." if skipped else ""
        text = f"{done} of {found.total} rows are done.{left_out}"
        return _result(named, found, text, done=done, skipped=skipped)


def _call(task: Task[..., Any], payload: str, is_typed: bool) -> dict[str, str]:
    """Return the call of the task for a row, or the error."""
    try:
        arguments = backfills.call_of(task, payload, is_typed=is_typed)
    except InvalidArguments as error:
        return {"invalid": on_one_line(str(error))}
    said = ", ".join(f"{name}={SHORTENED.repr(value)}" for name, value in arguments.items())
    return {"call": on_one_line(f"{task.name}({said})")}


def _result(named: str, found: Any, text: str, **counts: int) -> Result:
    document = {"dry_run": False, "name": named, "total": found.total, "done": found.done}
    return Result(f"{named}: {text}", {**document, "skipped": 0, **counts})


def _task(options: Mapping[str, Any]) -> Task[..., Any]:
    """Return the task to call.

    Raises:
        CommandError: no task has this name, or the import of its module fails.
    """
    task = task_named(options["task"])
    return task.using(database=options["database"]) if options["database"] else task
