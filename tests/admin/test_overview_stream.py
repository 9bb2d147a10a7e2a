"""The overview's stream ends with the right to see it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import Permission, User
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.test import Client

from pgqueue.admin import overview_stream
from pgqueue.admin.visitors import Visitor
from pgqueue.streams import source
from tests.eventually import eventually
from tests.sse.serving import Server, Stream, serving

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/admin/pgqueue/overview/stream/"
Open = Callable[[], Stream]


@pytest.fixture
def server(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    settings.ROOT_URLCONF = "tests.admin.urls"
    monkeypatch.setattr(overview_stream, "EVERY", timedelta(milliseconds=50))
    monkeypatch.setattr(overview_stream, "ASKED_EVERY", timedelta())
    with serving() as server:
        yield server
        eventually(source.is_unused)
    source.end_all()


@pytest.fixture
def viewer(db: None) -> User:
    user = User.objects.create_user("viewer", password="secret", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_overview"))
    return user


@pytest.fixture
def stream(server: Server, client: Client, viewer: User) -> Iterator[Stream]:
    """What the overview of somebody who is logged in is sent."""
    client.force_login(viewer)
    cookie = f"sessionid={client.cookies['sessionid'].value}"
    stream = Stream(server.port, PATH, Cookie=cookie)
    eventually(lambda: stream.events)
    yield stream
    stream.leave()


def log_out(user: User) -> None:
    Session.objects.all().delete()


def withdraw_the_permission(user: User) -> None:
    user.user_permissions.clear()


def deactivate(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def take_from_the_staff(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_staff=False)


def change_the_password(user: User) -> None:
    user.set_password("another")
    user.save()


def delete(user: User) -> None:
    user.delete()


ENDS = (
    log_out,
    withdraw_the_permission,
    deactivate,
    take_from_the_staff,
    change_the_password,
    delete,
)


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_a_stream_ends_with_the_right_to_see_it(
    stream: Stream, viewer: User, end: Callable[[User], None]
) -> None:
    end(viewer)

    stream.ends()
    assert stream.blocks[-1].event == "denied"


def test_a_stream_goes_on_as_long_as_it_may_be_seen(stream: Stream) -> None:
    eventually(lambda: len(stream.events) > 5)

    assert {each.event for each in stream.events} == {"overview"}


def test_a_stream_goes_on_in_the_time_zone_of_its_page(
    settings: Any, request: pytest.FixtureRequest, client: Client, viewer: User
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "tests.admin.urls.in_kolkata"]
    server: Server = request.getfixturevalue("server")
    client.force_login(viewer)
    stream = Stream(server.port, PATH, Cookie=f"sessionid={client.cookies['sessionid'].value}")
    eventually(lambda: stream.events)

    told = re.search("As of ([0-9:]+)", str(stream.events[0].data))

    stream.leave()
    now = datetime.now(ZoneInfo("Asia/Kolkata"))
    assert told
    assert told[1][:5] in {f"{now - timedelta(minutes=ago):%H:%M}" for ago in (0, 1)}


def test_whoever_has_no_session_is_looked_up_by_the_user(viewer: User) -> None:
    request = HttpRequest()
    request.user = viewer
    visitor = Visitor(request, lambda request: request.user.has_perm("pgqueue.view_overview"))
    assert visitor.still_may_see()

    withdraw_the_permission(viewer)

    assert not visitor.still_may_see()
