from __future__ import annotations

from django.db import models
from django_tenants.models import DomainMixin, TenantMixin


class Customer(TenantMixin):  # type: ignore[misc]
    name = models.TextField()
    auto_create_schema = True
    auto_drop_schema = True


class Domain(DomainMixin):  # type: ignore[misc]
    pass
