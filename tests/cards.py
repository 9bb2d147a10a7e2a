"""Tasks with arguments that are redacted, and the secrets in them.

Each kind of message and event leaves a secret here. Tests look for these in pages, commands, logs
and exports: a new way to show or log a payload, a result or an error passes it through
`tasks.redacting`.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from django.db import connection

from pgqueue import TaskContext, read, send, task
from pgqueue.events.dead_events import handle
from pgqueue.models import Schedule, Subscription
from pgqueue.testing import run_all
from pgqueue.webhooks.delivering import deliver
from tests.factories import record

CARD = "4111-1111-1111-1111"
TOKEN = "tok_live_Zk3x9"
NUMBER = 4242424242424242
SECRETS = (CARD, TOKEN, str(NUMBER))


@task(redact=["card", "user.email", "return.receipt"], aliases=["shop.gone.charge"])
def charge(order: int, card: str, user: dict[str, Any] | None = None) -> dict[str, str]:
    return {"receipt": card, "status": "paid", "said": f"charged {card}"}


@task(redact=["card"], max_attempts=1)
def decline(card: Any, *, token: str = "") -> None:
    try:
        raise KeyError(token or "no token")
    except KeyError as error:
        raise ValueError(f"{card!r} was declined") from error


@task(redact=["card"], max_attempts=1, atomic=True)
def decline_atomically(card: Any) -> None:
    raise ValueError(f"{card!r} was declined")


@task(redact=["card"], max_attempts=1)
async def decline_async(card: Any) -> None:
    raise ValueError(f"{card!r} was declined")


@task(max_attempts=1)
def sign_in(name: str, password: str) -> None:
    raise ValueError(f"{name} has not the password {password}")


@task(redact=["card"], takes_context=True)
def note(context: TaskContext, card: str) -> None:
    context.defer(60, progress={"said": f"waiting for {card}", "token": TOKEN})


@task(redact=["cards", "options.card"])
def charge_all(order: int, *cards: str, **options: Any) -> None: ...


@task(redact=["options"])
def charge_by(order: int, to: str = "", **options: Any) -> None: ...


@task
def sign_in_by(name: str, /, **credentials: Any) -> None: ...


@task(redact=["number"], max_attempts=1)
def take(number: Decimal) -> None: ...


@task
def issue() -> str:
    return CARD


@task(redact=["return"])
def issue_hidden() -> str:
    return CARD


@task(max_attempts=1)
def dispute(paid: dict[str, str]) -> None:
    raise ValueError(f"{paid['receipt']} is disputed")


@task(redact=["paid.receipt"])
def book(paid: dict[str, str]) -> None: ...


def leave_schedules() -> None:
    """Leave schedules with secrets among their arguments, and in why they failed."""
    own = {"cron": "0 3 * * *", "timezone": "UTC"}
    kept = {
        "plain": (charge.name, [7, CARD, {"email": TOKEN}], {}, CARD),
        "in code": (charge.name, [7], {"card": CARD}, f"{CARD} is refused"),
        "of nobody": ("gone.task", ["Ada"], {"password": TOKEN, "number": 1}, f"not {TOKEN}"),
    }
    for name, (called, args, kwargs, error) in kept.items():
        is_declared = name == "in code"
        Schedule.objects.bulk_create(
            [
                Schedule(
                    name=name,
                    task=called,
                    args=args,
                    kwargs=kwargs,
                    error=error,
                    declared=is_declared,
                    **own,
                )
            ]
        )


def leave_subscriptions() -> None:
    """Leave a subscription of the code that compares with secrets."""
    Subscription(
        name="in code",
        task=charge.name,
        topics=["a"],
        where={"login": {"password": TOKEN}},
        params={"api_key": CARD},
        declared=True,
        paused=True,
        position=0,
    ).save()


def leave_traces() -> dict[str, int]:
    """Leave messages in several states and events, each with a secret.

    Return the messages' ids by what they are.
    """
    ids: dict[str, Any] = {
        "dead": decline.enqueue(CARD, token=TOKEN).id,
        "dead of a number": decline.enqueue({"number": NUMBER}).id,
        "dead of a field": sign_in.enqueue("Ada", TOKEN).id,
        "ended": charge.enqueue(7, CARD, {"email": TOKEN, "name": "Ada"}).id,
        "noted": note.enqueue(CARD).id,
    }
    # Straight into the log: in a test's transaction events get no positions.
    columns = {"old": {"secret": CARD}, "new": {"secret": TOKEN}}
    record(connection, topic="shop_order.update", payload=json.dumps(columns))
    made = {"name": "Ada", "password": TOKEN, "sessions": [{"cookie": CARD}]}
    record(connection, topic="user.made", payload=json.dumps(made))
    [event] = read(topics="user.made")
    ids["parked"] = handle.enqueue("group", event).id
    ids["delivery"] = deliver.using(key="hook").enqueue(event).id
    run_all()
    leave_schedules()
    leave_subscriptions()
    ids["ready"] = charge.using(metadata={"authorization": TOKEN}).enqueue(7, card=CARD).id
    ids["raw"] = send("mail", {"to": "Ada", "login": [{"api_key": TOKEN}]})
    return {name: int(id) for name, id in ids.items()}
