from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from pgqueue.admin.base import ReadOnlyAdmin
from pgqueue.models import Duty


@admin.register(Duty)
class DutyAdmin(ReadOnlyAdmin):
    """The recurring work, and its last time; visible to users who may view workers."""

    list_display = ("name", "due_at", "ran_at")
    ordering = ("name",)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("pgqueue.view_worker")
