import json
from argparse import ArgumentParser
from collections import Counter
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from pgqueue.compat.celery import porting
from pgqueue.management import arguments
from pgqueue.values.escaping import on_one_line


class Command(BaseCommand):
    help = (
        "Find the imports, calls, settings and signals of Celery in a project's source. List which "
        "of them work, differ or are refused, with a remedy. The command imports no code of the "
        "project. It ends with status 1 if a use is refused."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "paths", nargs="*", default=["."], help="files and folders (this folder)."
        )
        parser.add_argument(
            "--fix",
            action="store_true",
            help="rewrite the imports of names that work. Statements that import a refused name "
            "stay unchanged.",
        )
        parser.add_argument(
            "--all", action="store_true", help="also list uses that work without a difference."
        )
        arguments.add_format(parser)

    def handle(self, *args: Any, paths: list[str], fix: bool, **options: Any) -> None:
        found: list[porting.Finding] = []
        fixed = 0
        for path in porting.files(_existing(paths)):
            try:
                found += porting.findings(path)
                if fix and (content := porting.rewritten(path)) is not None:
                    path.write_bytes(content)
                    fixed += 1
            except (SyntaxError, UnicodeDecodeError) as error:
                self.stderr.write(f"{path}: reading failed: {on_one_line(str(error))}")
        counts = Counter(each.word for each in found)
        if options["format"] == "json":
            told = [{**each._asdict(), "path": str(each.path)} for each in found]
            self.stdout.write(json.dumps({"found": told, "counts": counts, "rewritten": fixed}))
        else:
            for each in found:
                if options["all"] or each.word != "taken over":
                    why = f": {each.why}" if each.why else ""
                    self.stdout.write(f"{each.path}:{each.line}: {each.word}: {each.what}{why}")
            said = ", ".join(
                f"{counts[word]} {word}" for word in ("taken over", "differs", "refused")
            )
            self.stdout.write(f"{said}.")
            if fix:
                self.stdout.write(f"Imports were rewritten in {fixed} files.")
        if counts["refused"]:
            raise SystemExit(1)


def _existing(paths: list[str]) -> list[Path]:
    for each in paths:
        if not Path(each).exists():
            raise CommandError(f"There is no file or folder {each!r}.")
    return [Path(each) for each in paths]
