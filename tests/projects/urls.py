"""The pages of the admin, where it is installed, and the views that a project adds."""

from __future__ import annotations

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest
from django.urls import path

from pgqueue import receive_webhook
from pgqueue.metrics import view
from pgqueue.sse import event_stream, message_stream
from tests.projects.tasks import SECRET


def anyone(request: HttpRequest, wanted: object) -> bool:
    return True


urlpatterns = [
    path("metrics/", view),
    path("events/", event_stream(authorize=anyone)),
    path("messages/<int:id>/", message_stream(authorize=anyone)),
    path("hook/", receive_webhook(secrets=SECRET, source="partner")),
]
if apps.is_installed("django.contrib.admin"):
    urlpatterns += [path("admin/", admin.site.urls)]
