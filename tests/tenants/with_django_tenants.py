"""A project with django-tenants."""

from __future__ import annotations

from tests.tenants.base import *  # noqa: F403
from tests.tenants.base import DATABASES, TENANT_APPS
from tests.tenants.base import SHARED_APPS as OF_ALL

DATABASES["default"]["ENGINE"] = "django_tenants.postgresql_backend"
DATABASE_ROUTERS = ["django_tenants.routers.TenantSyncRouter"]
SHARED_APPS = ["django_tenants", "tests.tenants.customers", *OF_ALL]
INSTALLED_APPS = [*SHARED_APPS, *TENANT_APPS]
TENANT_MODEL = "customers.Customer"
TENANT_DOMAIN_MODEL = "customers.Domain"
PGQUEUE = {
    "TENANT": "pgqueue.compat.django_tenants",
    "TENANT_METRICS": 9,
    "MAX_ATTEMPTS": 1,
}
