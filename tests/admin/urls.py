"""The admin, under a policy that lets in nothing but what is its own."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils import timezone

urlpatterns = [path("admin/", admin.site.urls)]
POLICY = "default-src 'self'; img-src 'self' data:"


def in_kolkata(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[..., HttpResponse]:
    """Show times in a time zone of the user's."""

    def answer(request: HttpRequest) -> HttpResponse:
        with timezone.override("Asia/Kolkata"):
            return get_response(request)

    return answer


def strict(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[..., HttpResponse]:
    """Send the policy with each page."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response["Content-Security-Policy"] = POLICY
        return response

    return answer
