"""Who may do what: every page and every operation of the admin, and the permissions that it takes.

Each row is tried by who has just these permissions, who lacks one of them and has all others, and
by the roles that an operations team has. What changes nothing is refused; what is refused changes
nothing. Pages and actions that the admin has and no row names fail a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any
from urllib.parse import unquote

import pytest
from asgiref.sync import async_to_sync
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.db import transaction
from django.test import AsyncClient, Client

from pgqueue import Rebuild, consumer
from tests.admin.places import ROOT, Place, admins, make_world, places, snapshot

Needs = frozenset[frozenset[str]]
"""Sets of permissions, each of which is enough."""
ANY: Needs = frozenset({frozenset()})
"""Of the staff."""
NOBODY: Needs = frozenset()

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


def one_of(*codenames: str) -> Needs:
    return frozenset(frozenset({each}) for each in codenames)


def all_of(*needs: Needs) -> Needs:
    return frozenset(frozenset().union(*each) for each in product(*needs))


def seen(model: str) -> Needs:
    """Return what lets one see a model's pages: Django shows a row to who may change it, too."""
    if model in ("overview", "flow"):
        return one_of(f"view_{model}")
    if model == "duty":
        return one_of("view_worker")
    return one_of(f"view_{model}", f"change_{model}")


OPERATE, PURGE = one_of("operate_message"), one_of("purge_message")
EDITED = ("channel", "policy", "schedule", "group", "subscription", "webhook")
READ_ONLY = ("message", "history", "worker", "duty", "event", "flow")


@dataclass(frozen=True)
class Row:
    """A request, and who may make it.

    Attributes:
        data: what is posted; None: the page is asked for.
        offered: a part of the page behind `path` that only those see who may.
    """

    name: str
    place: Place
    needs: Needs
    query: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, Any] | Callable[[Stage], Mapping[str, Any]] | None = None
    offered: tuple[Place, Mapping[str, str], str] | None = None
    of: str = "replaying"

    def __str__(self) -> str:
        return self.name


def get(model: str, pattern: str, needs: Needs, **query: str) -> Row:
    return Row(f"see {model} {pattern or 'list'}", Place(model, pattern), needs, query)


def action(model: str, name: str, needs: Needs, about: str | None = None) -> Row:
    def data(stage: Stage) -> Mapping[str, Any]:
        ids = stage.world.keys[about or model]
        confirmed = {"post": "yes"} if name == "delete_selected" else {}
        confirmed |= {"ids": str(ids)} if name in ASKED else {}
        return {"action": name, "_selected_action": ids, "index": "0", **confirmed}

    offered = (Place(model, ""), {}, f'<option value="{name}">')
    return Row(f"{name} {model}", Place(model, ""), all_of(seen(model), needs), {}, data, offered)


CHANGE = "<path:object_id>/change/"
ASKED = ("cancel", "release", "discard", "rerun")
"""Actions that are confirmed first."""
MAIL = {"name": "mail"}
PAGE = (Place("channel", "page/"), MAIL)
LIST = (Place("message", ""), {})
ADDED: dict[str, dict[str, Any]] = {
    "channel": {"name": "new", "on_dead": "skip", "on_full": "refuse"},
    "policy": {"channel": "new", "key": "", "scope": "channel", "max_running": "3", "per": "1"},
    "schedule": {
        "name": "new",
        "task": "tests.jobs.add",
        "args": "[1]",
        "kwargs": "{}",
        "cron": "0 3 * * *",
        "timezone": "UTC",
        "missed": "once",
        "overlap": "allow",
    },
    "group": {"name": "new", "partitions": "1", "start": "now", "move_to": "now"},
    "subscription": {
        "name": "new",
        "topics": "a",
        "start": "now",
        "task": "tests.jobs.mail",
        "priority": "0",
        "weight": "1",
        "max_attempts": "5",
        "channel": "new",
    },
    "webhook": {
        "name": "new",
        "url": "https://example.com/",
        "topics": "a",
        "start": "now",
        "backoff": "null",
        "headers": "{}",
        "max_attempts": "5",
    },
}


def written(model: str) -> Callable[[Stage], Mapping[str, Any]]:
    """Return what finds the data of a form."""
    return lambda stage: stage.data.get(model, {"name": "new", "task": "new"})


def rows() -> Iterator[Row]:
    for model in (*EDITED, *READ_ONLY, "overview"):
        yield get(model, "", seen(model))
    for model in (*EDITED, *READ_ONLY):
        edited = model in EDITED
        yield get(model, "<path:object_id>/", ANY)
        yield get(model, CHANGE, seen(model))
        yield get(model, "<path:object_id>/history/", seen(model))
        adds, changes, deletes = (
            one_of(f"{verb}_{model}") if edited else NOBODY for verb in ("add", "change", "delete")
        )
        yield get(model, "add/", adds)
        yield get(model, "<path:object_id>/delete/", deletes)
        data = written(model)
        lists, own = (Place(model, ""), {}), (Place(model, CHANGE), {})
        add = (*lists, f'href="/admin/pgqueue/{model}/add/')
        yield Row(f"add {model}", Place(model, "add/"), adds, {}, data, add)
        yield Row(
            f"change {model}", Place(model, CHANGE), changes, {}, data, (*own, 'name="_save"')
        )
        delete = Place(model, "<path:object_id>/delete/")
        sure = {"post": "yes"}
        yield Row(f"delete {model}", delete, deletes, {}, sure, (*own, 'class="deletelink"'))
    yield get("message", "key/", seen("message"), channel="mail", key="mail")
    yield get("channel", "page/", seen("channel"), **MAIL)
    yield get("overview", "data/", seen("overview"))
    yield get("overview", "stream/", seen("overview"))
    yield get("message", "bulk/<int:id>/", seen("message"))
    yield from actions()
    yield from by_filter()
    yield from of_channels()
    yield from of_flows()
    yield from of_durable_tasks()


def actions() -> Iterator[Row]:
    for model in EDITED:
        yield action(model, "delete_selected", one_of(f"delete_{model}"))
    yield action("message", "run_now", OPERATE, "scheduled message")
    yield action("message", "cancel", OPERATE, "scheduled message")
    yield action("message", "release", OPERATE, "running message")
    yield action("message", "replay", OPERATE)
    yield action("message", "discard", PURGE)
    yield action("history", "rerun", OPERATE, "durable history")
    for model in ("channel", "schedule", "subscription"):
        yield action(model, "pause", one_of(f"change_{model}"), f"{model} that is on")
        yield action(model, "resume", one_of(f"change_{model}"))
    yield action("schedule", "run_now", one_of("change_schedule"), "schedule that is on")
    yield action("group", "resume", one_of("change_group"))
    yield action("group", "rebuild", one_of("change_group"))
    operates = one_of("operate_webhook", "change_webhook")
    for name in ("pause", "resume", "send_test"):
        yield action("webhook", name, operates)
    yield action("webhook", "replay", OPERATE)
    yield action("webhook", "rotate", one_of("change_webhook"))


def by_filter() -> Iterator[Row]:
    """Yield what is done to everything that a filter finds, and how that is stopped."""
    bulk, progress = Place("message", "bulk/"), Place("message", "bulk/<int:id>/")
    chosen = {"channel": "mail"}
    for name, permission in {
        "run_now": OPERATE,
        "cancel": OPERATE,
        "release": OPERATE,
        "replay": OPERATE,
        "discard": PURGE,
    }.items():
        needs, query = all_of(seen("message"), permission), {"action": name, **chosen}
        yield Row(f"ask to {name} by filter", bulk, needs, query)
        link = (*LIST, f"/bulk/?action={name}")
        yield Row(f"{name} by filter", bulk, needs, query, {"newest": "9"}, link)
    stops = {"replaying": OPERATE, "discarding": PURGE, "purging": PURGE}
    for of, permission in stops.items():
        needs = all_of(seen("message"), permission)
        button = (progress, {}, 'value="Stop"')
        yield Row(f"stop {of} by filter", progress, needs, {}, {}, button, of)
        yield Row(f"see {of} by filter", progress, seen("message"), of=of)


def of_channels() -> Iterator[Row]:
    page, purge, trim = (Place("channel", each) for each in ("page/", "purge/", "trim/"))
    changes = one_of("change_channel")
    resumed = (*PAGE, 'value="resume"')
    yield Row("resume a channel on its page", page, changes, MAIL, {"switch": "resume"}, resumed)
    new = {"name": "new"}
    paused = (page, new, 'value="pause"')
    yield Row("pause a channel on its page", page, changes, new, {"switch": "pause"}, paused)
    needs, sure = all_of(seen("channel"), PURGE), {"confirmed": "1", "newest": "9"}
    given = {"purge": (purge, {"states": ["ready"]}), "trim": (trim, {"keep": "1"})}
    for name, (place, data) in given.items():
        link = (*PAGE, f"/channel/{name}/")
        yield Row(f"see {name}", place, needs, MAIL)
        yield Row(f"{name} a channel", place, needs, MAIL, {**data, **sure}, link)


def of_flows() -> Iterator[Row]:
    operate, page = Place("flow", "<path:object_id>/operate/"), (Place("flow", CHANGE), {})
    needs = all_of(seen("flow"), OPERATE)
    for name in ("cancel", "retry"):
        link = (*page, f"/operate/?action={name}")
        yield Row(f"ask to {name} a flow", operate, needs, {"action": name})
        yield Row(f"{name} a flow", operate, needs, {"action": name}, {}, link)
    yield get("flow", CHANGE, seen("flow"), json="1")


def of_durable_tasks() -> Iterator[Row]:
    live, ended = "durable message", "durable history"
    verbs: dict[str, tuple[dict[str, str], dict[str, str]]] = {
        "signal": ({"name": "go"}, {"name": "go", "dedupe_id": "a", "field_value": "1"}),
        "again": ({"step": "add"}, {}),
        "fork": ({"after": "add"}, {}),
        "rerun": ({}, {}),
    }
    for verb, (query, data) in verbs.items():
        needs, place = (
            all_of(seen("message"), OPERATE),
            Place("message", f"<path:object_id>/{verb}/"),
        )
        link = None if verb == "rerun" else (Place("message", CHANGE), {}, f"/{verb}/")
        yield Row(f"ask to {verb} a message", place, needs, query, of=live)
        yield Row(f"{verb} a message", place, needs, query, data, link, live)
    for verb, query in {"fork": {}, "rerun": {}}.items():
        needs, place = (
            all_of(seen("history"), OPERATE),
            Place("history", f"<path:object_id>/{verb}/"),
        )
        link = (Place("history", CHANGE), {}, f"/{verb}/")
        yield Row(f"ask to {verb} an ended message", place, needs, query, of=ended)
        yield Row(f"{verb} an ended message", place, needs, query, {}, link, ended)


ROWS = list(rows())
LOOKS = ("message", "history", "channel", "policy", "worker", "event", "group", "subscription")
VIEWS = {f"view_{each}" for each in (*LOOKS, "webhook", "schedule", "overview", "flow")}
ROLES: dict[str, set[str]] = {
    "a member of the staff": set(),
    "a viewer": VIEWS,
    "an operator": {*VIEWS, "operate_message", "operate_webhook"},
    "a purger": {*VIEWS, "purge_message"},
    "an operator who may see nothing": {"operate_message", "operate_webhook", "purge_message"},
}


class Stage:
    """Rows that requests are about, and clients of those who make them: made once.

    At first there is only a superuser: `invite()` makes the others.
    """

    def __init__(self) -> None:
        self.world = make_world()
        self.before = snapshot()
        self._codenames = {
            each.codename: each
            for each in Permission.objects.filter(content_type__app_label="pgqueue")
        }
        self.all = set(self._codenames)
        self._clients: dict[frozenset[str], Client] = {}
        self.root = logged_in(User.objects.create_superuser("root"))
        self.data = {
            model: {**given, "_previewed": self._previewed(given)} if model == "policy" else given
            for model, given in ADDED.items()
        }

    def invite(self) -> Stage:
        """Make all users now, since a user that a test makes is gone after the test."""
        outsider = User.objects.create(username="outsider")
        outsider.user_permissions.set(self._codenames.values())
        self.outsider = logged_in(outsider)
        self.viewer = self.client(ROLES["a viewer"])
        self.nobody = self.client(ROLES["a member of the staff"])
        for row in ROWS:
            list(self.trying(row.needs))
        return self

    def client(self, codenames: Iterable[str]) -> Client:
        """Return a client of a member of the staff with these permissions."""
        own = frozenset(codenames)
        if own not in self._clients:
            user = User.objects.create(username=f"user {len(self._clients)}", is_staff=True)
            user.user_permissions.set(self._codenames[each] for each in own)
            self._clients[own] = logged_in(user)
        return self._clients[own]

    def path(self, place: Place, query: Mapping[str, str], of: str) -> str:
        """Return an address; `of` names the operation by a filter that it is about, if any."""
        path, keys = self.world.path(place, **query), self.world.keys
        if of.startswith("durable "):
            return path.replace(f"/{keys[place.model]}/", f"/{keys[of]}/")
        return path.replace(f"/{keys['replaying']}/", f"/{keys[of]}/")

    def posted(self, row: Row) -> Mapping[str, Any] | None:
        """Return the data of a row."""
        return row.data(self) if callable(row.data) else row.data

    def trying(self, needs: Needs) -> Iterator[tuple[str, Client, bool]]:
        """Yield who tries what these permissions allow: a name, and whether it may.

        Of those who differ in no permission that matters, one does.
        """
        tried, named = set(), frozenset().union(*needs)
        for name, codenames in {**edges(needs, self.all), **ROLES}.items():
            if (matter := named & codenames) not in tried:
                yield name, self.client(codenames), any(each <= codenames for each in needs)
            tried.add(matter)
        yield "who is not of the staff", self.outsider, False
        yield "nobody", Client(), False
        yield "a superuser", self.root, bool(needs)

    def _previewed(self, given: Mapping[str, str]) -> str:
        shown: Any = self.root.post(f"{ROOT}policy/add/", given)
        return str(shown.context["previewed"])


def edges(needs: Needs, everything: set[str]) -> dict[str, set[str]]:
    """Return who has just enough, and who has everything but what makes it enough."""
    found = {f"who has just {sorted(each)}": set(each) for each in needs}
    for missing in {frozenset(each) for each in product(*needs)} if needs else ():
        if missing:
            found[f"who has all but {sorted(missing)}"] = everything - missing
    return found


@pytest.fixture(scope="module")
def stage(django_db_setup: None, django_db_blocker: Any) -> Iterator[Stage]:
    with django_db_blocker.unblock(), transaction.atomic():
        yield Stage().invite()
        transaction.set_rollback(True)


@pytest.fixture(autouse=True)
def _rebuildable(stage: Stage) -> None:
    """Declare the handler of the group, which no app of the tests does."""
    hooks = Rebuild(begin=str, hand_over=str)
    consumer(stage.world.keys["group"], rebuild=hooks)(lambda event: None)


def logged_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def is_let_in(client: Client, row: Row, stage: Stage) -> bool:
    """Make a request; return whether it was answered, or, if it is to change something, did."""
    path, data = stage.path(row.place, row.query, row.of), stage.posted(row)
    if data is not None:
        answer: Any = client.post(path, data)
    elif row.place.pattern == "stream/":
        browser = AsyncClient()
        browser.cookies = client.cookies
        answer = async_to_sync(browser.get)(path)
    else:
        answer = client.get(path)
    assert answer.status_code in (200, 302, 403), answer
    if data is not None:
        return snapshot() != stage.before
    is_sent_away = "/login/" in answer.headers.get("Location", "")
    return answer.status_code != 403 and not is_sent_away


def is_offered(client: Client, row: Row, stage: Stage) -> bool | None:
    """Return whether the page that leads there says so; None: there is none, or it is not shown."""
    if row.offered is None:
        return None
    place, query, part = row.offered
    answer = client.get(stage.path(place, query, row.of))
    return part in answer.content.decode() if answer.status_code == 200 else None


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_it_is_for_those_who_have_its_permissions_and_for_nobody_else(
    stage: Stage, row: Row
) -> None:
    for name, client, is_allowed in stage.trying(row.needs):
        shown = None if client is stage.root else is_offered(client, row, stage)
        with transaction.atomic():
            done = is_let_in(client, row, stage)
            transaction.set_rollback(True)

        assert done == is_allowed, f"{name}: done: {done}"
        assert shown in (None, is_allowed), f"{name}: offered: {shown}"


LOOKUPS = ("", "__startswith", "__regex", "__isnull", "__gt", "__in")
RELATED = (*EDITED, *READ_ONLY)


def paths_of(model: Any, depth: int = 2) -> Iterator[str]:
    """Yield the names of a model's fields, also behind its relations in both directions."""
    yield "pk"
    for each in model._meta.get_fields(include_hidden=True):
        name = each.name if each.concrete else each.get_accessor_name() or each.name
        names = {each.name, name} if not each.concrete else {each.name, each.attname}
        yield from names
        if depth and each.is_relation and each.related_model not in (None, "self"):
            for further in paths_of(each.related_model, depth - 1):
                yield from (f"{own}__{further}" for own in names)


@pytest.mark.parametrize("model", RELATED)
def test_a_list_is_narrowed_by_the_filters_that_it_shows_and_by_nothing_else(
    stage: Stage, model: str
) -> None:
    # A superuser, too: nobody needs it, and a lookup of any field walks the whole table.
    its, path = admins()[model], stage.world.path(Place(model, ""))
    listed = {getattr(each, "parameter_name", f"{each}__isnull") for each in its.list_filter}
    asked = {f"{name}{how}" for name in paths_of(its.model) for how in LOOKUPS} - listed

    answers = {query: stage.root.get(path, {query: "w"}).status_code for query in asked}

    assert len(asked) > 10
    assert {query for query, status in answers.items() if status != 400} == set()


@pytest.mark.parametrize(
    "query",
    [
        "secret__startswith=whsec_",
        "secret__startswith=no",
        "url__contains=example",
        "headers__has_key=a",
        "rotated__0__isnull=1",
        "subscription_ptr__webhook__secret__startswith=whsec_",
        "subscription__webhook__secret__startswith=whsec_",
        "subscription__name=mail",
        "_to_field=secret",
        "_to_field=url&_popup=1",
    ],
)
@pytest.mark.parametrize("model", ["webhook", "subscription"])
def test_no_parameter_of_a_list_tells_what_no_page_of_a_viewer_shows(
    stage: Stage, model: str, query: str
) -> None:
    answer = stage.viewer.get(f"{ROOT}{model}/?{query}")

    assert answer.status_code == 400


@pytest.mark.parametrize("model", RELATED)
def test_a_list_is_sorted_and_searched_by_nothing_that_a_viewer_does_not_see(
    stage: Stage, model: str
) -> None:
    hidden = {"secret", "rotated", "headers", "url", "payload", "result", "args", "kwargs"}
    its = admins()[model]
    request = stage.root.get(f"{ROOT}{model}/").wsgi_request

    sorted_by = {
        its.get_changelist_instance(request).get_ordering_field(each)
        for each in its.get_list_display(request)
    }

    assert not hidden & {str(each).lstrip("-").partition("__")[0] for each in sorted_by}
    assert not hidden & {each.partition("__")[0] for each in its.get_search_fields(request)}
    assert its.date_hierarchy is None


def test_an_id_tells_nothing_to_who_may_not_see_its_row(stage: Stage) -> None:
    rows = [row for row in ROWS if "<" in row.place.pattern]

    assert rows
    assert [str(row) for row in rows if answers_differ(stage, row)] == []


def answers_differ(stage: Stage, row: Row) -> bool:
    """Return whether a page answers otherwise for a row that exists."""
    ids = {"subscription": [stage.world.keys["webhook"]]}.get(row.place.model, [])
    own = str(quote(str(stage.world.keys.get(row.place.model, 1))))
    data = stage.posted(row)
    ask = stage.nobody.get if data is None else stage.nobody.post

    def answered(id: str) -> tuple[int, str]:
        path = stage.path(row.place, row.query, row.of)
        for there in (own, str(stage.world.keys[row.of])):
            path = path.replace(f"/{row.place.model}/{there}/", f"/{row.place.model}/{id}/")
        answer: Any = ask(path, data)
        return answer.status_code, unquote(answer.headers.get("Location", "")).replace(id, "")

    missing = "7" * 15 if own.isdecimal() else str(quote("f" * 8 + "-0000-4000-8000-" + "f" * 12))
    there = [own, *(str(quote(str(each))) for each in ids)]
    return {answered(id) for id in there} != {answered(missing)}


def test_every_page_of_the_admin_has_a_row() -> None:
    assert places() - {row.place for row in ROWS} == set()


def test_every_action_of_a_list_has_a_row(stage: Stage) -> None:
    request = stage.root.get("/admin/").wsgi_request
    offered = {
        f"{name} {model}" for model, its in admins().items() for name in its.get_actions(request)
    }

    assert offered - {row.name for row in ROWS} == set()


def test_every_permission_is_one_that_a_row_takes(stage: Stage) -> None:
    # Nobody changes messages and the like: Django makes these permissions all the same.
    unused = {f"{verb}_{model}" for verb in ("add", "change", "delete") for model in READ_ONLY}

    assert (
        stage.all - unused - {name for row in ROWS for each in row.needs for name in each} == set()
    )


def test_each_operation_needs_a_token_against_forgery(stage: Stage) -> None:
    client = Client(enforce_csrf_checks=True)
    client.cookies = stage.root.cookies
    posted = [row for row in ROWS if row.data is not None and row.needs]

    answers = {
        row.name: client.post(
            stage.path(row.place, row.query, row.of), stage.posted(row)
        ).status_code
        for row in posted
    }

    assert set(answers.values()) == {403}
    assert snapshot() == stage.before


def test_nothing_is_changed_by_looking_not_even_with_what_would_be_posted(stage: Stage) -> None:
    for row in ROWS:
        if row.place.pattern == "stream/":
            continue
        query = {**row.query, **(stage.posted(row) or {})}
        # Some of it no list is narrowed by.
        answer = stage.root.get(stage.path(row.place, {}, row.of), query)
        assert answer.status_code in (200, 302, 400, 403), row

    assert snapshot() == stage.before
