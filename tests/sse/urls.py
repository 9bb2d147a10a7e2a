"""Streams of every kind that tests look at."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import path

from pgqueue.sse import Filter, StreamedMessage, event_stream, message_stream


def anyone(request: HttpRequest, wanted: object) -> bool:
    return True


async def anyone_in_time(request: HttpRequest, wanted: object) -> bool:
    return True


def wrapped(request: HttpRequest, wanted: object) -> Any:
    return anyone_in_time(request, wanted)


def staff(request: HttpRequest, wanted: object) -> bool:
    return bool(request.user.is_staff)  # type: ignore[union-attr]


def own(request: HttpRequest, wanted: Filter) -> Filter:
    return wanted.narrowed(Filter(where={"user": int(request.GET["user"])}))


def of_the_users_key(request: HttpRequest, wanted: Filter) -> Filter:
    return Filter(key=request.GET["user"])


EVEN = "(e.payload ->> 'n')::int % (s.params ->> 'by')::int = 0"
FAILING = "12 / (e.payload ->> 'n')::int > 2"


def too_much(request: HttpRequest, wanted: Filter) -> Filter:
    return Filter(where={"user": 7})


def elsewhere(request: HttpRequest, wanted: object) -> HttpResponse:
    return HttpResponse("log in", status=401)


def undecided(request: HttpRequest, wanted: object) -> Any:
    return "yes"


def nothing(request: HttpRequest, wanted: object) -> None:
    return None


def of_the_key(request: HttpRequest, message: StreamedMessage) -> bool:
    return message.key == request.GET["key"]


def blank(request: HttpRequest) -> HttpResponse:
    return HttpResponse("")


urlpatterns = [
    path("blank/", blank),
    path("events/", event_stream(authorize=anyone)),
    path("async/", event_stream(authorize=anyone_in_time)),
    path("wrapped/", event_stream(authorize=wrapped)),
    path("nobody/", event_stream()),
    path("staff/", event_stream(authorize=staff)),
    path("own/", event_stream(authorize=own)),
    path("key/", event_stream(authorize=of_the_users_key, topics="order.*")),
    path("even/", event_stream(authorize=anyone, predicate=EVEN, params={"by": 2})),
    path("failing/", event_stream(authorize=anyone, predicate=FAILING)),
    path("forbidden/", event_stream(authorize=anyone, predicate="pg_sleep(1) IS NULL")),
    path("too-much/", event_stream(authorize=too_much, topics="order.*", where={"total__gte": 10})),
    path("elsewhere/", event_stream(authorize=elsewhere)),
    path("undecided/", event_stream(authorize=undecided)),
    path("nothing/", event_stream(authorize=nothing)),
    path("orders/", event_stream(authorize=anyone, topics="order.*", where={"total__gte": 10})),
    path("brief/", event_stream(authorize=anyone, heartbeat=0.1)),
    path("few/", event_stream(authorize=anyone, max_events=3)),
    path("young/", event_stream(authorize=anyone, max_age=60)),
    path("second/", event_stream(authorize=anyone, database="second")),
    path("messages/<int:id>/", message_stream(authorize=anyone)),
    path("keys/<int:id>/", message_stream(authorize=of_the_key)),
    path("no-messages/<int:id>/", message_stream()),
    path("async/<int:id>/", message_stream(authorize=anyone_in_time)),
    path("elsewhere/<int:id>/", message_stream(authorize=elsewhere)),
    path("undecided/<int:id>/", message_stream(authorize=undecided)),
    path("nothing/<int:id>/", message_stream(authorize=nothing)),
]
