from __future__ import annotations

from django.contrib import admin

from pgqueue.admin.base import ReadOnlyAdmin
from pgqueue.models import Duty


@admin.register(Duty)
class DutyAdmin(ReadOnlyAdmin):
    """The recurring work, and when it was last done."""

    list_display = ("name", "due_at", "ran_at")
    ordering = ("name",)
