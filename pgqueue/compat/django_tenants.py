"""The tenants of django-tenants: `PGQUEUE = {"TENANT": "pgqueue.compat.django_tenants"}`.

`pgqueue` belongs to SHARED_APPS, and not to TENANT_APPS.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections
from django_tenants.utils import (
    get_public_schema_name,
    get_tenant_database_alias,
    get_tenant_model,
    tenant_context,
)


def current() -> str | None:
    """Return the tenant's schema that is active in this thread; None: the public one is."""
    name: str = connections[get_tenant_database_alias()].schema_name  # type: ignore[attr-defined]
    return None if name == get_public_schema_name() else name


@contextmanager
def enter(tenant: str) -> Iterator[None]:
    """Make a tenant's schema the active one in the block.

    Raises:
        ObjectDoesNotExist: no tenant has this schema.
    """
    # A schema that does not exist is no error of PostgreSQL's: the run would use the public one.
    alias = get_tenant_database_alias()
    with tenant_context(get_tenant_model().objects.using(alias).get(schema_name=tenant)):
        yield


def all() -> list[str]:
    """Return the names of all tenants' schemas, without the public one."""
    tenants = get_tenant_model().objects.using(get_tenant_database_alias())
    others = tenants.exclude(schema_name=get_public_schema_name())
    return list(others.order_by("schema_name").values_list("schema_name", flat=True))
