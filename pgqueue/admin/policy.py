from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin

from pgqueue.admin.base import QueueAdmin
from pgqueue.conf import settings
from pgqueue.models import Policy


class PolicyForm(forms.ModelForm):  # type: ignore[type-arg]
    """Checked as the queue's database has it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Django asks where its routers say, or where the instance is from.
        self.instance._state.db = settings().database


@admin.register(Policy)
class PolicyAdmin(QueueAdmin):
    """What channels and keys are limited to."""

    form = PolicyForm
    list_display = (
        *("channel", "scope", "key"),
        *("max_running", "rate", "per", "burst", "max_size", "weight"),
    )
    list_filter = ("scope",)
    search_fields = ("channel", "key")
    ordering = ("channel", "scope", "key")
    fieldsets = (
        (None, {"fields": ("channel", "scope", "key")}),
        ("Limits", {"fields": ("max_running", "rate", "per", "burst", "max_size", "weight")}),
    )
