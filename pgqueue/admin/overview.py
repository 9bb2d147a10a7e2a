"""The overview: one page with the current state of the queue, which updates itself."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from pgqueue.admin import menu
from pgqueue.admin.base import ReadOnlyAdmin
from pgqueue.admin.live import words as live_words
from pgqueue.admin.overview_data import LABELS, look
from pgqueue.admin.overview_sections import in_words, payload, rendered
from pgqueue.admin.overview_stream import OverviewClient
from pgqueue.admin.visitors import Visitor
from pgqueue.conf import settings
from pgqueue.engine.run_statistics import WINDOWS, CountingWindow
from pgqueue.models import Overview
from pgqueue.streams import requests


@admin.register(Overview)
class OverviewAdmin(ReadOnlyAdmin):
    """Shows one page instead of a list."""

    def __init__(self, model: type[Any], admin_site: Any) -> None:
        super().__init__(model, admin_site)
        menu.arrange(admin_site)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("", wrap(self.changelist_view), name="pgqueue_overview_changelist"),
            path("data/", wrap(self.data_view), name="pgqueue_overview_data"),
            path("stream/", wrap(self.stream_view), name="pgqueue_overview_stream"),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the page."""
        window = self._window(request)
        snapshot = look(settings().database, window)
        is_streamed = isinstance(request, ASGIRequest)
        context = {
            **self.admin_site.each_context(request),
            **(extra_context or {}),
            "title": _("Overview"),
            "opts": self.opts,
            "window": window,
            "windows": LABELS.items(),
            "sections": rendered(snapshot),
            "in_words": in_words(snapshot),
            "live": {
                "chart": snapshot.chart,
                "zone": timezone.get_current_timezone_name(),
                "data": f"{reverse('admin:pgqueue_overview_data')}?window={window.name}",
                "stream": f"{reverse('admin:pgqueue_overview_stream')}?window={window.name}"
                if is_streamed
                else None,
                "words": {
                    "succeeded": _("succeeded"),
                    "failed": _("failed"),
                    "wait": _("mean wait (s)"),
                    "run": _("mean run time (s)"),
                    **live_words(),
                },
            },
        }
        return TemplateResponse(request, "admin/pgqueue/overview/page.html", context)

    def data_view(self, request: HttpRequest) -> HttpResponse:
        """Return the changed sections, for pages of a server without streams."""
        return JsonResponse(payload(look(settings().database, self._window(request))))

    def stream_view(self, request: HttpRequest) -> HttpResponseBase:
        """Stream the changed sections."""
        window = self._window(request)
        language = translation.get_language() or "en"
        zone = timezone.get_current_timezone()
        visitor = Visitor(request, self._may_see)
        return requests.refusal(request) or requests.respond(
            request,
            lambda: OverviewClient(window.name, language, zone, visitor),
            alias=settings().database,
            heartbeat=requests.HEARTBEAT,
        )

    def _may_see(self, request: HttpRequest) -> bool:
        return self.admin_site.has_permission(request) and self.has_view_permission(request)

    def _window(self, request: HttpRequest) -> CountingWindow:
        if not self.has_view_permission(request):
            raise PermissionDenied
        return WINDOWS.get(request.GET.get("window", ""), WINDOWS["hour"])
