"""The tenants of a project in the lists of messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

from pgqueue import task
from pgqueue.models import History, Message
from pgqueue.testing import run_all
from testproject.shop.factories import ProductFactory
from testproject.shop.models import Product
from tests import jobs
from tests.admin.acting import HISTORY, MESSAGES, listed


def _enter(tenant: str) -> AbstractContextManager[None]:
    return nullcontext()


def _fail() -> list[str]:
    raise OSError("no network")


entered: list[str] = []


@contextmanager
def _note(tenant: str) -> Iterator[None]:
    entered.append(tenant)
    yield
    entered.append("")


@task
def sell(product: Product) -> None:
    entered.append(product.name)


some = SimpleNamespace(current=lambda: None, enter=_enter, all=lambda: ["north", "south"])
without_names = SimpleNamespace(current=lambda: None, enter=_enter)
in_north = SimpleNamespace(current=lambda: "north", enter=_note, all=lambda: ["north", "south"])
away = SimpleNamespace(current=lambda: None, enter=_enter, all=_fail)
many = SimpleNamespace(
    current=lambda: None, enter=_enter, all=lambda: [f"t{n}" for n in range(150)]
)


@pytest.fixture
def use(settings: Any) -> Any:
    """A function that puts tenants into use."""

    def use(name: str) -> None:
        settings.PGQUEUE = {**settings.PGQUEUE, "TENANT": f"{__name__}.{name}"}

    return use


def enqueue(tenant: str | None) -> int:
    return int(jobs.add.using(metadata={"tenant": tenant}).enqueue(1).id)


@pytest.mark.parametrize("path", [MESSAGES, HISTORY])
def test_lists_have_a_column_and_a_filter_where_tenants_are_in_use(
    viewer: Client, use: Any, path: str
) -> None:
    north, south, none = enqueue("north"), enqueue("south"), enqueue(None)
    if path == HISTORY:
        run_all(raise_errors=True)
    assert b"tenant_line" not in viewer.get(path).content
    assert b"meta.tenant=north" not in viewer.get(path).content

    use("some")
    page = viewer.get(path).content.decode()

    assert page.count("column-tenant_line") == 1
    assert '<span class="pgqueue-cut" title="north">north</span>' in page
    assert ">Tenant south</a>" in page
    assert set(listed(viewer, path)) == {north, south, none}
    assert listed(viewer, f"{path}?match=meta.tenant%3Dsouth") == [south]


def test_an_operation_on_a_tenant_leaves_the_others_alone(operator: Client, use: Any) -> None:
    use("some")
    north, _ = enqueue("north"), enqueue("south")

    page: Any = operator.get(f"{MESSAGES}bulk/?action=cancel&match=meta.tenant%3Dnorth")

    assert page.context["counted"].number == 1
    assert Message.objects.filter(pk=north).exists()


@pytest.mark.parametrize("name", ["without_names", "away"])
def test_without_names_of_tenants_the_list_only_has_the_column(
    viewer: Client, use: Any, name: str
) -> None:
    enqueue("north")
    use(name)

    page = viewer.get(MESSAGES).content.decode()

    assert "column-tenant_line" in page
    assert "Tenant " not in page


def test_a_list_offers_a_bounded_number_of_tenants(viewer: Client, use: Any) -> None:
    use("many")

    page = viewer.get(MESSAGES).content.decode()

    assert page.count('<option value="meta.tenant=') == 100
    assert page.count(">Tenant t") == 5


def test_a_redacted_tenant_has_no_column(viewer: Client, use: Any, settings: Any) -> None:
    enqueue("north")
    use("some")
    settings.PGQUEUE = {**settings.PGQUEUE, "REDACT": ["tenant"]}

    assert b"tenant_line" not in viewer.get(MESSAGES).content


class TestModelInstances:
    def page(self, client: Client, tenant: str | None, product: Product) -> str:
        message = sell.using(metadata={"tenant": tenant}).enqueue(product)
        response = client.get(f"{MESSAGES}{message.id}/change/")
        assert response.status_code == 200
        return response.content.decode()

    @pytest.mark.parametrize("tenant", ["south", None])
    def test_of_another_tenant_are_not_read(
        self, viewer: Client, use: Any, tenant: str | None
    ) -> None:
        use("in_north")
        product = ProductFactory()
        product.delete()
        product.pk = 7

        page = self.page(viewer, tenant, product)

        assert "product 7" in page
        assert "product 7: not there" not in page

    def test_of_the_tenant_that_is_entered_are_read(self, viewer: Client, use: Any) -> None:
        use("in_north")
        product = ProductFactory()
        product.delete()
        product.pk = 7

        assert "product 7: not there" in self.page(viewer, "north", product)

    def test_without_a_table_are_not_there(self, viewer: Client) -> None:
        product = ProductFactory()
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE shop_product RENAME TO shop_gone")

        assert f"product {product.pk}: not there" in self.page(viewer, None, product)


def test_other_arguments_of_a_rerun_are_read_in_the_tenant_of_the_message(
    operator: Client, use: Any
) -> None:
    use("in_north")
    product = ProductFactory(name="x")
    message = sell.using(metadata={"tenant": "south"}).enqueue(product)
    run_all(raise_errors=True)
    entered.clear()
    given = json.dumps(History.objects.get(pk=message.id).payload["args"])

    operator.post(
        f"{HISTORY}{message.id}/rerun/", {"arguments": f'{{"args": {given}, "kwargs": {{}}}}'}
    )
    call_command("pgqueue_rerun", message.id, f"--args={given}")

    assert entered == ["south", ""] * 2
    assert [each.metadata["tenant"] for each in Message.objects.all()] == ["south"] * 2
