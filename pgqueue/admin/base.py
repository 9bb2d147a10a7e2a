from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from pgqueue.conf import settings

if TYPE_CHECKING:
    ModelAdmin: TypeAlias = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin


class QueueAdmin(ModelAdmin):
    """Reads and writes the queue's database, where no router points to it either."""

    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).using(settings().database)

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:
        # By its name alone, a row that is there already would be overwritten.
        obj.save(using=settings().database, force_insert=not change)

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        obj.delete(using=settings().database)


class ReadOnlyAdmin(QueueAdmin):
    """Shows what only the engine writes."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
