"""The shop's agent: a durable task that asks a model, uses tools, and waits for a person."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core import mail
from django.test import Client
from pytest_django import Settings

from pgqueue.models import History, Message
from pgqueue.testing import advance, run_all
from testproject.shop.agent import decide_about_refund, find_order, pay_back
from testproject.shop.demo.model import Model
from testproject.shop.factories import OrderFactory
from testproject.shop.models import Order, Refund

pytestmark = pytest.mark.django_db


@pytest.fixture
def model(settings: Settings) -> Iterator[Model]:
    """A model that the agent asks."""
    with Model() as model:
        settings.MODEL_URL = model.url
        yield model


@pytest.fixture
def order(db: None) -> Order:
    order: Order = OrderFactory.create(quantity=2)
    return Order.objects.select_related("product").get(pk=order.pk)  # with its price as stored


def test_it_pays_back_once_the_owner_has_agreed(model: Model, order: Order, client: Client) -> None:
    agent = decide_about_refund.enqueue(f"Order {order.pk} came broken.")
    run_all(raise_errors=True)

    assert not Refund.objects.exists()
    [question] = mail.outbox
    assert question.subject == f"Pay {order.total} back for order {order.pk}?"
    waiting = Message.objects.get(pk=agent.id)
    link = str(question.body).split()[-1]
    assert waiting.progress == {"text": question.subject, "approve": link}
    assert "Pay back</button>" in client.get(link).content.decode()
    client.post(link)
    run_all(raise_errors=True)

    agent.refresh()
    assert agent.return_value == f"About order {order.pk}: {order.total} was paid back."
    assert [each.amount for each in Refund.objects.all()] == [order.total]
    assert model.asked == {0: 1, 1: 1, 2: 1}
    names = [each["name"] for each in History.objects.get(pk=agent.id).steps["steps"]]
    assert names == [
        *("ask_model", "find_order", "ask_model#2", "ask_owner", "wait:decided", "pay_back"),
        "ask_model#3",
    ]


def test_it_pays_nothing_if_nobody_agrees(model: Model, order: Order) -> None:
    agent = decide_about_refund.enqueue(f"Order {order.pk} came broken.")
    run_all(raise_errors=True)
    advance(2 * 86_400)
    run_all(raise_errors=True)

    agent.refresh()
    assert agent.return_value == f"About order {order.pk}: The owner does not agree."
    assert not Refund.objects.exists()


def test_its_tools_say_what_they_did(order: Order) -> None:
    assert find_order(order.pk) == {
        "order_id": order.pk,
        "product": order.product.name,
        "total": str(order.total),
    }
    assert pay_back(order.pk, "4.50") == "4.50 was paid back"


def test_a_complaint_is_made_on_the_page(order: Order, client: Client) -> None:
    assert "It came broken" in client.get("/shop/").content.decode()

    page = client.post("/shop/refunds/", {"order": order.pk}, follow=True)

    agent = Message.objects.get()
    assert agent.task == decide_about_refund.name
    assert f'data-events="/shop/refunds/{agent.pk}/events/"' in page.content.decode()
    assert client.get("/shop/refunds/").status_code == 405
