"""The pages of flows: a list, and one that draws a flow and operates it."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.test import Client
from django.utils import timezone

from pgqueue import Channel, flow
from pgqueue.engine import flow_graph
from pgqueue.engine.flows import LATCH
from pgqueue.models import Flow, History, Message
from pgqueue.operating import bulk
from pgqueue.states import State
from pgqueue.testing import run_all
from tests import flow_jobs as jobs
from tests import stored_flows as flows
from tests.admin.acting import BULK, HISTORY, MESSAGES, listed, told
from tests.admin.conftest import Connection, Login
from tests.factories import enqueue
from tests.stored_flows import Member, Stored

FLOWS = "/admin/pgqueue/flow/"
DONE = "succeeded"


def chord(number: int = 3, word: str = DONE, *more: Member, **changed: Any) -> Stored:
    """Store a flow of some messages and one that waits for all of them."""
    parts = [*[Member("shop.fetch", word)] * number, *more]
    return flows.store(
        "pages", [*parts, Member("shop.merge", "held", range(len(parts)))], **changed
    )


def page(client: Client, stored: Stored) -> Any:
    response: Any = client.get(stored.path)
    assert response.status_code == 200
    return response


def drawing(client: Client, stored: Stored) -> ET.Element:
    """Return the graph of a page, which is well-formed XML."""
    text = page(client, stored).content.decode()
    svg = text[text.index('<svg direction="ltr" role="group"') :]
    return ET.fromstring(svg[: svg.index("</svg>") + len("</svg>")])  # noqa: S314


def texts(svg: ET.Element, kind: str) -> list[str]:
    return [each.text or "" for each in svg.iter("text") if each.get("class") == kind]


class TestTheList:
    def test_shows_the_state_and_the_progress_of_each(
        self, queue: Connection, viewer: Client
    ) -> None:
        chord(3, DONE, Member("shop.fetch", "dead"))
        flows.store("over", [Member("a", DONE)] * 2, ended_at=timezone.now())

        response: Any = viewer.get(FLOWS)
        shown = response.content.decode()

        assert [flow.name for flow in response.context["cl"].result_list] == ["over", "pages"]
        assert "Can&#x27;t go on: messages are dead" in shown
        assert "1 dead, 1 waits for others, 3 succeeded" in shown
        assert "2 succeeded" in shown

    def test_is_narrowed_to_those_that_go_on_or_have_ended(
        self, queue: Connection, viewer: Client
    ) -> None:
        living = [chord().id, chord().id]
        over = flows.store("over", [], ended_at=timezone.now()).id

        assert listed(viewer, f"{FLOWS}?state=living") == living
        assert listed(viewer, f"{FLOWS}?state=ended") == [over]
        assert listed(viewer, FLOWS) == [over, *reversed(living)]

    def test_finds_an_id_or_a_part_of_a_name(self, queue: Connection, viewer: Client) -> None:
        first = chord().id
        named = flows.store("Nightly report", []).id

        assert listed(viewer, f"{FLOWS}?q=report") == [named]
        assert listed(viewer, f"{FLOWS}?q={first}") == [first]
        assert listed(viewer, f"{FLOWS}?q=nothing") == []

    def test_counts_up_to_a_bound_and_says_so(
        self, queue: Connection, viewer: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pgqueue.admin.flow.COUNTED", 2)
        chord(5)

        assert "1 waits for others, 2+ succeeded" in viewer.get(FLOWS).content.decode()

    @pytest.mark.parametrize(
        ("last", "said"),
        [("running", "Goes on, beside dead messages"), ("held", "Can&#x27;t go on")],
    )
    def test_of_a_large_flow_says_whether_it_goes_on(
        self,
        queue: Connection,
        viewer: Client,
        monkeypatch: pytest.MonkeyPatch,
        last: str,
        said: str,
    ) -> None:
        monkeypatch.setattr("pgqueue.admin.flow.COUNTED", 2)
        flows.store("large", [*[Member("a", "dead")] * 3, Member("a", last)])

        assert said in viewer.get(FLOWS).content.decode()
        monkeypatch.setattr("pgqueue.listing.index.REACH", 3)
        assert '<td class="field-state">Has dead messages</td>' in viewer.get(FLOWS).text


class TestAFlowThatWaitsForAnother:
    def test_has_a_page_that_shows_the_wait(self, queue: Connection, viewer: Client) -> None:
        with flow("first") as first:
            first.enqueue(jobs.fail)
        with flow("second", after=first) as second:
            second.enqueue(jobs.nothing)
        of_first, of_second = (Stored(int(each.id), []) for each in (first, second))

        assert texts(drawing(viewer, of_first), "name") == ["fail", "end_of_flow"]
        svg = drawing(viewer, of_second)
        assert texts(svg, "name") == ["wait_for_flow", "nothing"]
        assert texts(svg, "said") == ["… Waits for others"] * 2
        assert '<p class="pgqueue-lead">Goes on</p>' in page(viewer, of_second).content.decode()
        latch = Message.objects.get(task=LATCH)
        shown = viewer.get(f"{MESSAGES}{latch.pk}/change/").content.decode()
        assert "pgqueue.tasks.latches.end_of_flow" in shown

        run_all()

        assert texts(drawing(viewer, of_first), "said") == ["✗ Dead", "✓ Succeeded"]
        svg = drawing(viewer, of_second)
        assert texts(svg, "said") == ["✗ Dead", "… Waits for others"]
        shown = page(viewer, of_second).content.decode()
        assert "Can&#x27;t go on: messages are dead" in shown
        shown = viewer.get(f"{MESSAGES}{latch.pk}/change/").content.decode()
        assert "has failed: 1 of its messages are dead" in shown


class TestTheGraph:
    def test_has_a_node_for_each_message_with_its_state_as_sign_word_and_class(
        self, queue: Connection, viewer: Client
    ) -> None:
        members = [
            Member("a", DONE, (), 0, 2.5),
            Member("b", "dead", (0,)),
            Member("c", "running", (0,), 3),
            Member("d", "held", (1, 2)),
            Member("e", "cancelled", (0,)),
        ]

        svg = drawing(viewer, flows.store("f", members))

        assert texts(svg, "name") == ["a", "b", "c", "d", "e"]
        assert texts(svg, "said") == [
            *("✓ Succeeded", "✗ Dead", "▶ Running", "… Waits for others", "⊘ Cancelled"),
        ]
        assert texts(svg, "lasting")[0] == "2.5 s"
        classes = [each.get("class") for each in svg.iter("g")]
        assert "node is-dead" in classes
        assert len([each for each in classes if (each or "").startswith("edge")]) == 5

    def test_has_groups_of_siblings_that_lead_to_their_messages(
        self, queue: Connection, viewer: Client
    ) -> None:
        stored = chord(57, DONE, *[Member("shop.fetch", "dead")] * 3)

        svg = drawing(viewer, stored)

        assert texts(svg, "name") == ["fetch × 60", "merge"]
        assert texts(svg, "said") == ["✗ 3 dead, 57 succeeded", "… Waits for others"]
        (group, _) = svg.iter("a")
        assert listed(viewer, group.get("href", "")) == stored.ids[57:60][::-1]
        # So does the table, for each state.
        shown = page(viewer, stored).content.decode()
        ended = f"{HISTORY}?flow={stored.id}&amp;task=shop.fetch&amp;outcome=succeeded"
        assert f'<a href="{ended}">57 succeeded</a>' in shown
        assert len(listed(viewer, ended.replace("&amp;", "&"))) == 57

    def test_marks_the_critical_path_and_lists_it(self, queue: Connection, viewer: Client) -> None:
        members = [
            Member("slow", DONE, (), 0, 9),
            Member("fast", DONE, (), 0, 1),
            Member("end", DONE, (0, 1), 10, 12),
        ]
        stored = flows.store("f", members)

        svg, response = drawing(viewer, stored), page(viewer, stored)

        critical = [each for each in svg.iter("g") if "is-critical" in (each.get("class") or "")]
        assert len(critical) == 3  # two nodes, one line
        assert "The critical path leads through slow" in (svg.findtext("desc") or "")
        content = response.content.decode()
        assert f"#{stored.ids[0]}" in content
        assert f">#{stored.ids[1]}<" not in content
        assert "1.0 s" in content  # the end waited for a worker

    def test_is_said_to_those_who_do_not_see_it(self, queue: Connection, viewer: Client) -> None:
        svg = drawing(viewer, chord())

        named = (svg.get("aria-labelledby"), svg.get("aria-describedby"))
        assert named == tuple(svg.find(tag).get("id") for tag in ("title", "desc"))  # type: ignore[union-attr]
        assert "The table below says the same." in (svg.findtext("desc") or "")

    def test_has_nothing_that_a_strict_policy_refuses(
        self, queue: Connection, viewer: Client
    ) -> None:
        svg = drawing(viewer, chord())

        assert {each.tag for each in svg.iter()} <= {
            *("svg", "title", "desc", "g", "path", "polygon", "a", "rect", "text"),
        }
        assert not [each for each in svg.iter() if "style" in each.attrib]

    def test_shows_names_as_what_they_are(self, queue: Connection, viewer: Client) -> None:
        name = "<b>&amp;\"'"
        svg = drawing(viewer, flows.store(name, [Member(name, DONE), Member("a", DONE, (0,))]))

        assert texts(svg, "name")[0] == name
        assert name in (svg.findtext("title") or "")

    def test_links_only_to_what_the_user_may_see(self, queue: Connection, login: Login) -> None:
        stored = chord()

        assert list(drawing(login("view_flow"), stored).iter("a")) == []
        assert len(list(drawing(login("view_flow", "view_message"), stored).iter("a"))) == 1

    def test_of_a_flow_of_ten_thousand_messages_has_few_nodes(
        self, queue: Connection, viewer: Client
    ) -> None:
        stored = chord(1)
        # As many more siblings: in one statement each.
        copies = {"flow": stored.id, "first": stored.ids[0], "last": stored.ids[1], "count": 9999}
        queue.execute(MORE_SIBLINGS, copies)

        svg = drawing(viewer, stored)

        assert texts(svg, "name") == ["fetch × 10,000", "merge"]

    def test_is_of_tasks_where_the_flow_is_larger_still(
        self, queue: Connection, viewer: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(flow_graph, "MEMBERS", 5)

        response = page(viewer, chord(8))

        assert "Each node is a task" in response.content.decode()
        assert "Its critical path is not looked for" in response.content.decode()


MORE_SIBLINGS = """
WITH copies AS (
    INSERT INTO pgqueue_history
    SELECT (h).* FROM (
        SELECT jsonb_populate_record(h, jsonb_build_object('id', h.id + 1000000 + n)) AS h
        FROM pgqueue_history h, generate_series(1, %(count)s) AS n WHERE h.id = %(first)s) s
    RETURNING id
)
INSERT INTO pgqueue_dependency (flow_id, child_id, parent_id)
SELECT %(flow)s, %(last)s, id FROM copies
"""


class TestThePage:
    def test_says_whether_the_flow_goes_on(self, queue: Connection, viewer: Client) -> None:
        def said(*members: Member, **changed: Any) -> str:
            text = page(viewer, flows.store("f", members, **changed)).content.decode()
            return text[text.index("pgqueue-lead") :].partition(">")[2].partition("<")[0]

        dead, waits = Member("a", "dead"), Member("b", "held", (0,))
        assert said(Member("a"), waits) == "Goes on"
        assert said(dead, waits, Member("c", "running")) == "Goes on, beside dead messages"
        assert said(dead, waits) == "Can&#x27;t go on: messages are dead"
        assert said(Member("a", DONE), ended_at=timezone.now()) == "Has ended"
        # The duty that notes the end has not looked yet.
        assert said(Member("a", DONE)) == "Has ended"

    def test_is_told_as_json_while_it_is_open(self, queue: Connection, viewer: Client) -> None:
        stored = chord()

        answer = json.loads(viewer.get(stored.path, {"json": "1"}).content)
        Flow.objects.update(ended_at=timezone.now())

        assert answer["sections"].keys() == {"state", "graph", "tables"}
        assert "fetch" in answer["sections"]["graph"]
        assert answer["is_over"] is False
        assert json.loads(viewer.get(stored.path, {"json": "1"}).content)["is_over"] is True

    def test_leads_to_what_runs_at_its_end(self, queue: Connection, viewer: Client) -> None:
        stored = flows.store("f", [Member("a"), Member("end", "held", (0,))], handler=1)

        shown = page(viewer, stored).content.decode()

        assert "Runs at its end" in shown

    def test_of_a_flow_that_is_not_there_leads_back(self, db: None, viewer: Client) -> None:
        for id in ("7", "nothing"):
            assert viewer.get(f"{FLOWS}{id}/change/").status_code == 302
        assert viewer.get(f"{FLOWS}7/operate/?action=cancel").status_code in (403, 404)


def operate(client: Client, stored: Stored, action: str) -> Any:
    path = f"{FLOWS}{stored.id}/operate/?action={action}"
    asked: Any = client.get(path)
    assert asked.status_code == 200
    return client.post(path, follow=True)


class TestOperating:
    def test_a_flow_is_cancelled_after_a_question(
        self, queue: Connection, operator: Client
    ) -> None:
        stored, other = chord(2, "ready"), chord(1, "ready")
        asked = operator.get(f"{FLOWS}{stored.id}/operate/?action=cancel").content.decode()
        assert "This is done to 3 messages." in asked
        assert "There is no way back." in asked
        assert Message.objects.filter(flow_id=stored.id).count() == 3

        response = operate(operator, stored, "cancel")

        assert told(response) == ["3 cancelled."]
        assert not Message.objects.filter(flow_id=stored.id).exists()
        assert Message.objects.filter(flow_id=other.id).count() == 2

    def test_its_dead_messages_are_retried(self, queue: Connection, operator: Client) -> None:
        stored = chord(2, "dead", Member("a", "ready"))
        other = chord(1, "dead")

        response = operate(operator, stored, "retry")

        assert told(response) == ["2 replayed."]
        states = Message.objects.filter(flow_id=stored.id).order_by("pk")
        assert list(states.values_list("state", flat=True)) == ["ready"] * 3 + ["held"]
        assert Message.objects.get(pk=other.ids[0]).state == State.DEAD

    def test_it_stands_in_the_log_of_the_admin(self, queue: Connection, operator: Client) -> None:
        stored = chord(2, "dead")

        operate(operator, stored, "retry")

        kind = ContentType.objects.get_for_model(Flow)
        entry = LogEntry.objects.get(content_type=kind, object_id=str(stored.id))
        assert entry.get_change_message() == "2 replayed."
        assert "2 replayed." in operator.get(f"{FLOWS}{stored.id}/history/").content.decode()

    def test_a_large_one_is_left_to_a_worker_in_batches(
        self, queue: Connection, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pgqueue.admin.flow.BATCH", 5)
        stored, other = chord(7, "dead"), chord(1, "dead")

        response = operate(operator, stored, "retry")

        Channel("default").pause()
        assert response.redirect_chain[-1][0].startswith(BULK)
        assert response.context["chosen"] == [("State", "Dead"), ("Flow", stored.id)]
        assert Message.objects.filter(flow_id=stored.id, state=State.DEAD).count() == 7
        run_all()
        assert not Message.objects.filter(flow_id=stored.id, state=State.DEAD).exists()
        assert Message.objects.get(pk=other.ids[0]).state == State.DEAD

    def test_of_a_large_one_is_followed_by_its_user_and_not_by_others_without_messages(
        self, queue: Connection, login: Login, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pgqueue.admin.flow.BATCH", 5)
        client, other = (login("view_flow", "operate_message") for _ in range(2))

        response = operate(client, chord(7, "ready"), "cancel")

        (path, _) = response.redirect_chain[-1]
        assert (response.status_code, other.get(path).status_code) == (200, 403)
        assert client.get(path, {"json": 1}).json()["said"] == "It waits for a worker."
        assert "The message that does it" not in response.content.decode()
        assert client.post(path, follow=True).context["told"]["is_over"]  # type: ignore[attr-defined]

        bulk.start("cancel", bulk.Filter(channel="none"), newest=0)

        assert client.get(path).status_code == 200

    def test_of_a_large_one_it_is_said_how_far_it_was_counted(
        self, queue: Connection, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pgqueue.admin.flow.BATCH", 5)
        cancelling, retrying = (
            operator.get(f"{FLOWS}{chord(7, word).id}/operate/?action={action}").content.decode()
            for action, word in (("cancel", "ready"), ("retry", "dead"))
        )

        assert "This is done to 5 messages or more: no more were counted." in cancelling
        assert "done to all dead messages of the flow, which were not counted." in retrying

    @pytest.mark.parametrize("word", ["ready", "succeeded"])
    def test_is_offered_as_far_as_it_makes_sense(
        self, queue: Connection, operator: Client, word: str
    ) -> None:
        shown = page(operator, flows.store("f", [Member("a", word)])).content.decode()

        assert ("action=cancel" in shown) == (word == "ready")
        assert "action=retry" not in shown

    def test_to_cancel_leaves_what_is_dead_which_those_discard_who_may_purge(
        self, queue: Connection, operator: Client, login: Login
    ) -> None:
        stored = chord(2, "dead", Member("a", "ready"))
        discards = f"{BULK}?action=discard&amp;flow={stored.id}&amp;state=dead"
        views = ("view_flow", "view_message")

        asked = operator.get(f"{FLOWS}{stored.id}/operate/?action=cancel").content.decode()
        answer = operate(operator, stored, "cancel")

        assert "This is done to 2 messages." in asked
        assert told(answer) == ["2 cancelled."]
        left = Message.objects.filter(flow_id=stored.id).values_list("state", flat=True)
        assert list(left) == ["dead"] * 2
        shown = page(operator, stored).content.decode()
        assert "action=cancel" not in shown
        assert discards not in shown
        assert discards in page(login(*views, "purge_message"), stored).content.decode()
        assert discards not in page(login("view_flow", "purge_message"), stored).content.decode()

    def test_to_cancel_counts_no_message_that_runs_at_its_end(
        self, queue: Connection, operator: Client
    ) -> None:
        stored = flows.store("f", [Member("a"), Member("end", "held", (0,))], handler=1)

        asked = operator.get(f"{FLOWS}{stored.id}/operate/?action=cancel").content.decode()
        answer = operate(operator, stored, "cancel")

        assert "This is done to 1 message." in asked
        assert told(answer) == ["1 cancelled."]

    def test_needs_the_token_that_guards_forms(self, queue: Connection, operator: Client) -> None:
        stored = chord(2, "dead")
        stranger = Client(enforce_csrf_checks=True)
        stranger.cookies = operator.cookies

        answer = stranger.post(f"{FLOWS}{stored.id}/operate/?action=retry")

        assert answer.status_code == 403
        assert Message.objects.get(pk=stored.ids[0]).state == State.DEAD

    def test_no_other_operation_is_there(self, queue: Connection, operator: Client) -> None:
        path = f"{FLOWS}{chord().id}/operate/?action=discard"

        assert operator.get(path).status_code == 404


class TestListsOfAFlow:
    def test_of_messages_and_of_history_have_its_members_only(
        self, queue: Connection, viewer: Client
    ) -> None:
        stored, _other, _none = chord(3), chord(3), enqueue(queue, 2)

        assert listed(viewer, f"{MESSAGES}?flow={stored.id}") == [stored.ids[3]]
        assert listed(viewer, f"{HISTORY}?flow={stored.id}") == stored.ids[2::-1]

    def test_are_narrowed_by_other_filters_too(self, queue: Connection, viewer: Client) -> None:
        stored = chord(3, "ready", Member("a", "dead"), Member("b", "cancelled"))
        query = f"?flow={stored.id}"

        assert listed(viewer, f"{MESSAGES}{query}&state=dead") == [stored.ids[3]]
        assert listed(viewer, f"{MESSAGES}{query}&task=shop.merge") == [stored.ids[5]]
        assert listed(viewer, f"{HISTORY}{query}&outcome=cancelled") == [stored.ids[4]]
        assert listed(viewer, f"{HISTORY}{query}&outcome=expired") == []

    def test_refuse_what_is_no_id(self, db: None, operator: Client) -> None:
        for text in ("x", "0", "-1", "9" * 30, "²"):
            for path in (MESSAGES, HISTORY):
                assert operator.get(path, {"flow": text}).status_code in (302, 400)
            answer = operator.get(BULK, {"action": "cancel", "flow": text})
            assert answer.status_code == 400

    def test_lead_to_operations_on_the_flow_alone(
        self, queue: Connection, operator: Client
    ) -> None:
        stored, other = chord(2, "ready"), chord(2, "ready")
        response: Any = operator.get(f"{MESSAGES}?flow={stored.id}")
        urls = {operation.name: url for operation, url in response.context["bulk_links"]}

        asked: Any = operator.get(urls["cancel"])
        operator.post(urls["cancel"], {"newest": asked.context["newest"]})
        run_all()

        assert asked.context["counted"].number == 3
        assert not Message.objects.filter(flow_id=stored.id).exists()
        assert Message.objects.filter(flow_id=other.id).count() == 3
        assert History.objects.filter(flow_id=stored.id, outcome="cancelled").count() == 3
