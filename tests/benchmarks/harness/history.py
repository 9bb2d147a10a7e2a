"""A history that workers made: the shop's messages and errands, under varying load, with faults.

`make history MESSAGES=1000000` makes a database beside that of the benchmarks, and keeps it: the
benchmark `spark` reads it. Nothing in it is inserted by hand. Customers order in waves; some tasks
fail once, some always; every 15 seconds one of two workers is killed.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import subprocess
import sys
import time
from itertools import cycle, islice
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL as Text
from psycopg.sql import Identifier, Literal

from tests.benchmarks.harness.database import ROOT, server_url

WAVE = 2_000
"""Messages that are enqueued together."""
DEEP = 20_000
"""Messages that wait, at most, before the next wave."""
KILL_EVERY = 15.0
"""Seconds."""
PERIOD = 120.0
"""Seconds from one rush of customers to the next."""
TENANTS = 200
WORKERS = 2
BENCH, HISTORY = "_bench", "_history"
"""What the names of the databases end with."""


def ensure(messages: int) -> str:
    """Return how libpq connects to a database where so many messages have ended, or more.

    It is made if it is not there, and migrated if it was made by older code.
    """
    from django.db import connections

    from pgqueue.database.connections import conninfo

    name = connections["default"].settings_dict["NAME"].removesuffix(BENCH)
    found = make_conninfo(conninfo("default"), dbname=name + HISTORY)
    command = [sys.executable, "-m", __name__, "--messages", str(messages)]
    # Reports go to stdout, and nothing else.
    subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=True)
    return found


def _begin() -> str:
    """Set Django up for the database; return how libpq connects to it."""
    address, query, options = server_url().partition("?")
    os.environ.update(
        DATABASE_URL=f"{address.removesuffix(BENCH)}{HISTORY}{query}{options}",
        DJANGO_SETTINGS_MODULE="tests.benchmarks.harness.settings",
        DEBUG="0",
        PGQUEUE_LEASE="5",
    )
    import django

    django.setup()

    from pgqueue.database.connections import conninfo

    return conninfo("default")


def _size(found: str) -> int:
    """Return how many messages have ended there, if the history was made to its end."""
    try:
        with psycopg.connect(found) as connection:
            row = connection.execute(
                "SELECT shobj_description(oid, 'pg_database') FROM pg_database "
                "WHERE datname = current_database()"
            ).fetchone()
    except psycopg.OperationalError:
        return 0
    return int(row[0]) if row and row[0] else 0


def _make(messages: int) -> None:
    from django.core.management import call_command
    from django.db import connections

    given = connections["default"].get_connection_params()
    name = given["dbname"]
    wanted = ("host", "port", "user", "password", "sslmode")
    server = {key: given[key] for key in wanted if key in given}
    with psycopg.connect(**server, dbname="postgres", autocommit=True) as connection:
        connection.execute(Text("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))
        connection.execute(Text("CREATE DATABASE {}").format(Identifier(name)))
        call_command("migrate", verbosity=0)
        ended = _run(messages)
        connections.close_all()
        connection.execute(
            Text("COMMENT ON DATABASE {} IS {}").format(Identifier(name), Literal(str(ended)))
        )
    print(f"{ended} messages have ended.")


def _run(messages: int) -> int:
    """Let workers and customers be at it until so many messages have ended; return how many."""
    from tests.benchmarks.harness.session import ask, session

    chance = random.Random(1)
    products = _products()
    workers = [_worker() for _ in range(WORKERS)]
    begun = killed_at = shown_at = time.monotonic()
    ended = 0
    try:
        for victim in cycle(range(WORKERS)):
            while time.monotonic() - killed_at < KILL_EVERY and ended < messages:
                ready, ended = ask(COUNTS)
                if ready < DEEP:
                    _wave(chance, products)
                # More customers at some times than at others.
                rush = 1 + math.sin((time.monotonic() - begun) / PERIOD * 2 * math.pi)
                time.sleep(0.05 if rush > 1 or ready < WAVE else 0.5)
                if time.monotonic() - shown_at > 5:
                    shown_at = time.monotonic()
                    print(f"{ended} of {messages} messages have ended.", file=sys.stderr)
            if ended >= messages:
                break
            workers[victim].kill()
            workers[victim].wait()
            workers[victim] = _worker()
            killed_at = time.monotonic()
    finally:
        for each in workers:
            each.terminate()
        for each in workers:
            each.wait(60)
    session().execute("VACUUM (ANALYZE)")
    [ended] = ask(b"SELECT count(*) FROM pgqueue_history")
    return int(ended)


COUNTS = b"""
SELECT (SELECT count(*) FROM (SELECT FROM pgqueue_message WHERE state = 'ready' LIMIT 50000) r),
       (SELECT coalesce(sum(n_tup_ins), 0) FROM pg_stat_user_tables
        WHERE relname LIKE 'pgqueue_history_%%')
"""


def _worker() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, ROOT / "manage.py", "runworker", "--threads", "16", "--verbosity", "0"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _products() -> list[Any]:
    from testproject.shop.models import Product

    return Product.objects.bulk_create(
        Product(sku=f"sku-{n}", name=f"Product {n}", price=n + 1, stock=10**6) for n in range(50)
    )


def _wave(chance: random.Random, products: list[Any]) -> None:
    """Place some orders, and what follows from them; and send some on errands."""
    from testproject.shop.models import Order
    from testproject.shop.tasks import move_stock, send_receipt
    from tests.benchmarks.harness.tasks import errand

    orders = Order.objects.bulk_create(
        Order(
            name=f"Customer {n}",
            email=f"customer-{chance.randrange(1000)}@example.com",
            product=chance.choice(products),
            quantity=chance.randint(1, 3),
        )
        for n in range(WAVE // 4)
    )
    emails = {order.pk: order.email for order in orders}
    send_receipt.using(key=emails.__getitem__).enqueue_many([(pk,) for pk in emails])
    move_stock.enqueue_many([(pk,) for pk in islice(emails, WAVE // 8)])
    calls = [
        (
            _tenant(chance),
            min(chance.expovariate(1 / 0.004), 0.5),
            chance.choices(["", "once", "always"], [0.965, 0.03, 0.005])[0],
        )
        for _ in range(WAVE - len(emails) - WAVE // 8)
    ]
    errand.using(key=lambda tenant, *_: tenant).enqueue_many(calls)


def _tenant(chance: random.Random) -> str:
    """Return a tenant: the first has more errands than any other, and so on."""
    return f"tenant-{int(TENANTS ** chance.random())}"


def main() -> None:
    from django.core.management import call_command

    parser = argparse.ArgumentParser(description="Make a history by running workers.")
    parser.add_argument("--messages", type=int, default=1_000_000, metavar="N")
    options = parser.parse_args()
    found = _begin()
    # Without the password.
    database = conninfo_to_dict(found)["dbname"]
    if _size(found) < options.messages:
        _make(options.messages)
    else:
        call_command("migrate", verbosity=0)
    print(f"At least {options.messages} messages have ended in the database {database}")


if __name__ == "__main__":
    main()
