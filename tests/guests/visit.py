"""Import all modules of the package, migrate its database, and run a message and an event."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import django
from django.core.management import call_command

if __name__ == "__main__":
    import pgqueue

    django.setup()
    names = [each.name for each in pkgutil.walk_packages(pgqueue.__path__, "pgqueue.")]
    for name in names:
        import_module(name)
    call_command("check", "--fail-level", "WARNING")
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
    call_command("migrate", verbosity=0)

    from tests.guests.tasks import double, note

    doubled = double.enqueue(21)
    pgqueue.publish("order.paid", {"total": 3})
    call_command("runworker", "--drain", "--threads", "1", verbosity=0)
    doubled.refresh()
    assert doubled.return_value == 42
    print(len(names), note.name)
