import json
import random
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from testproject.shop.demo import tour
from testproject.shop.demo.display import as_text
from testproject.shop.demo.ledger import Ledger
from testproject.shop.demo.workers import WorkerFailed


class Command(BaseCommand):
    help = (
        "Place orders in a shop, kill its worker half-way, start another, and check that "
        "nothing was lost or done twice. Status 1 if a promise was broken."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--orders", type=_count, default=5000, metavar="N", help="(5000)")
        parser.add_argument(
            "--producers", type=_count, default=4, metavar="N", help="threads that place them (4)"
        )
        parser.add_argument(
            "--seed", type=int, metavar="N", help="place the same orders as a run before."
        )
        parser.add_argument(
            "--format", choices=["text", "json"], default="text", help="of the ledger (text)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        seed = random.randrange(10**6) if options["seed"] is None else options["seed"]
        plan = tour.Plan(
            orders=options["orders"],
            producers=options["producers"],
            seed=seed,
            verbosity=max(options["verbosity"] - 1, 0),
        )
        call_command("migrate", verbosity=0, interactive=False)
        try:
            ledger = tour.run(plan)
        except (tour.DemoIsRunning, WorkerFailed) as error:
            raise CommandError(str(error)) from error
        self._show(ledger, options["format"])
        if not ledger.kept:
            raise CommandError(f"Promises broken, with --seed {seed}:\n" + "\n".join(ledger.broken))

    def _show(self, ledger: Ledger, form: str) -> None:
        if form == "json":
            self.stdout.write(json.dumps(ledger.as_dict()))
            return
        self.stdout.write(as_text(ledger))
        if ledger.kept:
            self.stdout.write("Every promise was kept.")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number of 1 or more.")
    return int(text)
