"""No page of the admin shows what is redacted."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import urljoin

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from pgqueue.admin.trail import TrailLine
from pgqueue.events.reading import read
from pgqueue.models import Message, Subscription, Webhook
from pgqueue.redaction import FIELDS, MASK
from tests.admin.acting import HISTORY, MESSAGES
from tests.cards import CARD, SECRETS, TOKEN, leave_traces

pytestmark = pytest.mark.slow

BEGIN = "/admin/pgqueue/"
MOST = 300
"""Pages that are looked at: more than there are."""


@pytest.fixture
def superuser(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def viewer(db: None) -> Client:
    user = User.objects.create_user("viewer", is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label="pgqueue", codename__startswith="view_")
    )
    client = Client()
    client.force_login(user)
    return client


def crawled(client: Client) -> dict[str, str]:
    """Return each page that can be reached from the queue's index, by its path."""
    found: dict[str, str] = {}
    ahead = [BEGIN]
    while ahead:
        path = ahead.pop()
        if path in found:
            continue
        answer = client.get(path, follow=True)
        assert answer.status_code == 200, path
        found[path] = unescape(answer.content.decode())
        assert len(found) < MOST
        for link in re.findall(r'href="([^"#]+)"', answer.content.decode()):
            target = urljoin(path, unescape(link))
            # Forms to add something, and pages that are sorted or filtered, show nothing else.
            if target.startswith(BEGIN) and not re.search(r"/add/|_filters=|=.*=|\?o=", target):
                ahead.append(target)
    return found


def test_no_page_that_can_be_reached_shows_a_secret(superuser: Client) -> None:
    ids = leave_traces()

    pages = crawled(superuser)

    shown = [(path, each) for path, page in pages.items() for each in SECRETS if each in page]
    assert not shown
    whole = {path for path in pages if path.endswith("/change/")}
    assert len(whole) >= len(ids)
    masked = {path for path in whole if MASK in pages[path]}
    assert {path for path in whole if "/event/" in path} <= masked
    for name, id in ids.items():
        assert whole & {f"{MESSAGES}{id}/change/", f"{HISTORY}{id}/change/"} & masked, name


def test_no_page_that_a_viewer_can_reach_shows_a_secret(viewer: Client) -> None:
    """Others have forms; a viewer is shown texts in their place."""
    leave_traces()
    compared = {"where": {"login": {"password": TOKEN}}, "params": {"api_key": CARD}}
    common = {"topics": ["a"], "paused": True, "position": 0, **compared}
    Subscription(name="of an operator", task="tests.jobs.add", **common).save()
    Webhook(
        name="a webhook", url="https://example.org/", secret="whsec_" + "QUJD" * 10, **common
    ).save()

    pages = crawled(viewer)

    assert not [(path, each) for path, page in pages.items() for each in SECRETS if each in page]
    whole = {path for path in pages if path.endswith("/change/")}
    for model, count in {"schedule": 1, "subscription": 2, "webhook": 1}.items():
        found = [path for path in whole if f"/{model}/" in path and MASK in pages[path]]
        assert len(found) >= count, model


def test_what_is_not_redacted_is_shown(superuser: Client) -> None:
    ids = leave_traces()

    dead = unescape(superuser.get(f"{MESSAGES}{ids['dead']}/change/").content.decode())
    ended = unescape(superuser.get(f"{HISTORY}{ids['ended']}/change/").content.decode())

    assert f"'{MASK}' was declined" in dead
    assert '"status": "paid"' in ended
    assert f'"said": "charged {MASK}"' in ended
    assert f'"email": "{MASK}"' in ended


def test_the_trail_of_a_row_shows_no_column_with_the_name_of_a_field(db: None) -> None:
    leave_traces()
    [event] = read(topics="shop_order.*")

    assert TrailLine.of(event).changes == [("secret", MASK, MASK)]


def test_the_trail_and_the_story_show_no_metadata_with_the_name_of_a_field(
    viewer: Client, settings: Any
) -> None:
    settings.PGQUEUE = {
        **settings.PGQUEUE,
        "REDACT": [*FIELDS, "tenant"],
        "TENANT": "tests.tasks.test_tenants.functions",
    }
    leave_traces()
    [event] = read(topics="shop_order.*")
    said = {"acting": {"user": "ann", "session_id": TOKEN, "reason": "she asked"}}
    message = Message.objects.create(
        task="tests.jobs.add",
        metadata={"tenant": "north", "acting": {"user": {"name": "ann", "token": TOKEN}}},
        state="dead",
        max_attempts=5,
        channel="default",
    )

    line = TrailLine.of(replace(event, metadata_json=json.dumps(said)))
    page = viewer.get(f"{MESSAGES}{message.pk}/change/").content.decode()

    assert (line.who, line.why) == ("ann", f"she asked, session_id: {MASK}")
    assert "north" not in page
    assert TOKEN not in page
