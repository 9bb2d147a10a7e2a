"""An agent that decides about refunds: it asks a model, uses tools, and waits for a person."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.request import Request, urlopen

from django.conf import settings
from django.core.mail import EmailMessage

from pgqueue import DurableContext, StepFailed, task
from testproject.shop.models import Order, Refund

OWNER = "owner@shop.example"
TURNS = 10
PATIENCE = timedelta(days=2)
ANSWER_TAKES = timedelta(seconds=60)

Message = dict[str, Any]


def ask_model(run: DurableContext, messages: list[Message]) -> Message:
    """Ask the model over HTTP, and show its words on the page as they come.

    The answer is a line of JSON for each word, and a last one with the `answer`: a `text`, or a
    `tool` with its `arguments`.
    """
    body = json.dumps({"messages": messages, "tools": sorted(TOOLS)}).encode()
    request = Request(settings.MODEL_URL, body, {"Content-Type": "application/json"})  # noqa: S310
    said: list[str] = []
    with urlopen(request, timeout=ANSWER_TAKES.total_seconds()) as lines:  # noqa: S310
        for line in lines:
            part = json.loads(line)
            if "answer" in part:
                answer: Message = part["answer"]
                return answer
            said.append(part["word"])
            run.checkpoint({"text": " ".join(said)})
    raise ConnectionError("The model has stopped amid its answer.")


def find_order(order_id: int) -> Message:
    """Return the product and the total of an order."""
    order = Order.objects.select_related("product").get(pk=order_id)
    return {"order_id": order.pk, "product": order.product.name, "total": str(order.total)}


def pay_back(order_id: int, amount: str) -> str:
    """Pay money back. No constraint says that it is done once: that is for the queue to keep."""
    Refund.objects.create(order_id=order_id, amount=Decimal(amount))
    return f"{amount} was paid back"


TOOLS: dict[str, Callable[..., Any]] = {"find_order": find_order, "pay_back": pay_back}
NEEDS_APPROVAL = {"pay_back"}


def ask_owner(question: str, url: str) -> None:
    """Mail the owner a link by which they agree."""
    EmailMessage(
        subject=question, body=f"Agree: {url}", to=[OWNER], headers={"X-Question": "refund"}
    ).send()


@task(channel="agents", durable=True, timeout=300)
def decide_about_refund(run: DurableContext, complaint: str) -> str:
    """Answer a customer's complaint."""
    messages: list[Message] = [{"role": "user", "content": complaint}]
    for _ in range(TURNS):
        answer = run.step(ask_model, run, messages)
        messages.append({"role": "assistant", "content": answer})
        if "tool" not in answer:
            return str(answer["text"])
        result = _use(run, answer["tool"], answer["arguments"])
        messages.append({"role": "tool", "content": result})
    raise run.cancel(f"The model has no answer after {TURNS} turns.")


def _use(run: DurableContext, name: str, arguments: Message) -> Any:
    """Return the result of a tool, or why there is none: the model may try another way."""
    if name not in TOOLS:
        return f"There is no tool {name!r}."
    if name in NEEDS_APPROVAL and not _agrees(run, arguments):
        return "The owner does not agree."
    try:
        return run.step(TOOLS[name], name=name, atomic=True, **arguments)
    except StepFailed as failure:
        return f"{failure.class_name}: {failure.text}"


def _agrees(run: DurableContext, arguments: Message) -> bool:
    question = f"Pay {arguments['amount']} back for order {arguments['order_id']}?"
    url = run.signal_url("decided", True, text=question, label="Pay back", expires=PATIENCE)
    run.step(ask_owner, question, url)
    run.checkpoint({"text": question, "approve": url})
    return bool(run.wait_for("decided", bool, timeout=PATIENCE))
