from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_lazy as _

from pgqueue.admin.base import QueueAdmin
from pgqueue.admin.links import page_url
from pgqueue.admin.preview import digest, effect
from pgqueue.conf import settings
from pgqueue.models import Policy
from pgqueue.options.policies import BREAKER

PREVIEWED = "_previewed"
"""The parameter with the digest of the policy that was previewed."""


AGAIN = "_again"


class PolicyForm(forms.ModelForm):  # type: ignore[type-arg]
    """A form that checks the queue's database, and is valid only after the preview."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Django would look in the database of its routers or of the instance.
        self.instance._state.db = settings().database

    def is_valid(self) -> bool:
        """Return whether the form may be saved; without a preview, the page is shown again."""
        if not super().is_valid() or AGAIN in self.data:
            return False
        return bool(self.data.get(PREVIEWED) == digest(self.instance))

    @property
    def is_to_be_previewed(self) -> bool:
        """Whether only the preview is missing before the form can be saved."""
        return self.is_bound and not self.errors


@admin.register(Policy)
class PolicyAdmin(QueueAdmin):
    """The limits of channels and keys; a preview shows a policy's effect before it is saved."""

    form = PolicyForm
    change_form_template = "admin/pgqueue/policy.html"
    list_display = (
        *("channel", "scope", "key"),
        *("max_running", "rate", "per", "burst", "max_size", "weight", *BREAKER),
    )
    list_filter = ("scope",)
    search_fields = ("channel", "key")
    ordering = ("channel", "scope", "key")
    fieldsets = (
        (None, {"fields": ("channel", "scope", "key")}),
        (_("Limits"), {"fields": ("max_running", "rate", "per", "burst", "max_size", "weight")}),
        (_("Circuit breaker"), {"fields": BREAKER}),
    )

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        form = context["adminform"].form
        if getattr(form, "is_to_be_previewed", False):
            context["preview"] = effect(form.instance)
            context["previewed"] = digest(form.instance)
        return super().render_change_form(request, context, *args, **kwargs)

    def response_post_save_add(self, request: HttpRequest, obj: Any) -> HttpResponseRedirect:
        return self._to_channel(request, obj) or super().response_post_save_add(request, obj)

    def response_post_save_change(self, request: HttpRequest, obj: Any) -> HttpResponseRedirect:
        return self._to_channel(request, obj) or super().response_post_save_change(request, obj)

    def _to_channel(self, request: HttpRequest, policy: Policy) -> HttpResponseRedirect | None:
        if not request.user.has_perm("pgqueue.view_channel"):
            return None
        return HttpResponseRedirect(page_url("channel_page", name=policy.channel))
