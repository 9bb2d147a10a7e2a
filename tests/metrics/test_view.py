"""`pgqueue.metrics.view`, scraped as Prometheus does."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection as django_connection
from django.test import Client
from django.urls import path
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from pgqueue import Channel, flow, metrics, publish, task, webhooks
from pgqueue.database.connections import connect
from pgqueue.engine import duty, workers
from pgqueue.engine import flows as engine
from pgqueue.engine.run_statistics import OUTCOMES
from pgqueue.engine.values import Position
from pgqueue.metrics import fleet
from pgqueue.models import Breaker, Schedule, Subscription, Webhook
from pgqueue.options.webhook_options import new_secret
from pgqueue.testing import run_all
from tests.durable import tasks as durable
from tests.eventually import eventually
from tests.factories import (
    bury,
    ended,
    enqueue,
    exported,
    insert,
    logged,
    one,
    past,
    register,
    subscribed,
)
from tests.feeding import by_wal, feeding, slot_made

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls(__name__)]
urlpatterns = [path("metrics", metrics.view)]

TOKEN = "a token of many letters"
Scrape = Callable[[], dict[tuple[str, ...], float]]


@task(channel="mail", max_attempts=2, backoff=[0])
def divide(by: int) -> None:
    1 / by


@pytest.fixture
def connection(transactional_db: None) -> Iterator[psycopg.Connection[Any]]:
    with closing(connect("default", name="test")) as connection:
        yield connection


@pytest.fixture
def scrape(settings: Any) -> Scrape:
    """Return a function that scrapes: the samples by their name and the values of their labels."""
    settings.PGQUEUE = {**settings.PGQUEUE, "METRICS_TOKEN": TOKEN}

    def samples() -> dict[tuple[str, ...], float]:
        return {
            (sample.name, *(sample.labels[each] for each in sorted(sample.labels, key=_order))): (
                sample.value
            )
            for family in families()
            for sample in family.samples
        }

    return samples


def _order(label: str) -> bool:
    return label not in ("channel", "task")


def families() -> list[Any]:
    response = Client().get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    return list(text_string_to_metric_families(response.text))


class TestAScrape:
    def test_has_the_depth_of_each_channel_by_state(
        self, scrape: Scrape, connection: psycopg.Connection[Any]
    ) -> None:
        enqueue(connection, 3, channel="mail")
        bury(connection, 2, channel="images")
        Channel("images").pause()
        id = register(connection)
        workers.beat(connection, id, notify_for=None, left_out=3)

        found = scrape()

        assert found["pgqueue_messages", "mail", "ready"] == 3
        assert found["pgqueue_messages", "images", "dead"] == 2
        assert found["pgqueue_oldest_ready_age_seconds", "mail"] > 0
        assert found["pgqueue_channel_paused", "images"] == 1
        assert found["pgqueue_channel_paused", "mail"] == 0
        assert found["pgqueue_workers", "worker"] == 1
        assert found["pgqueue_rows_left_out",] == 3
        assert not any(found["pgqueue_scrape_failed", part] for part in fleet.PARTS)

    def test_counts_the_breakers_that_let_no_message_start(
        self, scrape: Scrape, connection: psycopg.Connection[Any]
    ) -> None:
        Channel("mail").policy(breaker=(5, 60, 3600), each_key=True)
        Channel("images").policy(breaker=(5, 60, 3600))
        Channel("other").policy(max_running=3)
        hour = timedelta(hours=1)
        probe = insert(connection, channel="mail", key="b", state="running", attempt=1)
        tried = {"probe_id": probe, "probe_attempt": 1}
        for key, until, given in (
            *(("a", hour, {}), ("b", -hour, tried), ("c", -hour, {})),
            ("d", 9 * hour, {}),  # beyond the pause of its policy
        ):
            Breaker.objects.create(
                channel="mail", key=key, failed_at=[], open_until=timezone.now() + until, **given
            )

        found = scrape()

        assert found["pgqueue_breakers_open", "mail"] == 2
        assert found["pgqueue_breakers_open", "images"] == 0
        assert ("pgqueue_breakers_open", "other") not in found

    def test_counts_runs_and_their_times(self, scrape: Scrape) -> None:
        divide.enqueue_many([(1,), (1,), (0,)])

        call_command("runworker", "--drain", verbosity=0)
        found = scrape()

        pair = ("mail", divide.name)
        ended = {name: found["pgqueue_runs_total", *pair, name] for name in OUTCOMES}
        assert ended == {**dict.fromkeys(OUTCOMES, 0), "succeeded": 2, "failed": 1, "dead": 1}
        for name in ("pgqueue_wait_seconds", "pgqueue_run_seconds"):
            assert found[f"{name}_count", *pair] == found[f"{name}_bucket", *pair, "+Inf"] == 4
            assert found[f"{name}_sum", *pair] > 0

    def test_has_counters_that_never_go_back_while_they_are_added_up(self, scrape: Scrape) -> None:
        before: dict[tuple[str, ...], float] = {}
        for _ in range(4):
            divide.enqueue_many([(1,)] * 20)
            call_command("runworker", "--drain", verbosity=0)
            found = scrape()
            for name, value in before.items():
                if name[0].endswith(("_total", "_bucket", "_count", "_sum")):
                    assert found[name] >= value, name
            before = found
            call_command("pgqueue_maintain", verbosity=0)

        assert scrape()["pgqueue_runs_total", "mail", divide.name, "succeeded"] == 80

    def test_has_the_lag_of_groups_and_subscriptions(
        self, scrape: Scrape, connection: psycopg.Connection[Any]
    ) -> None:
        publish("order.paid", {"id": 7})
        call_command("pgqueue_maintain", verbosity=0)
        call_command("pgqueue_group", "make", "books", "--start", "beginning", verbosity=0)
        subscribed(connection, "slow", position=0)

        found = scrape()

        assert found["pgqueue_group_lag_events", "books"] >= 1
        assert found["pgqueue_group_lag_seconds", "books"] > 0
        assert found["pgqueue_subscription_lag_events", "slow"] >= 1

    def test_says_how_late_duties_and_schedules_are(
        self, scrape: Scrape, connection: psycopg.Connection[Any]
    ) -> None:
        Schedule.objects.create(name="nightly", task=divide.name, cron="@daily")
        connection.execute(
            "UPDATE pgqueue_schedule SET next_at = statement_timestamp() - interval '1 hour'"
        )
        duty.due(connection, ["purge"])  # a flush of the tables has taken its row
        connection.execute(
            "UPDATE pgqueue_duty SET due_at = statement_timestamp() - interval '2 hours' "
            "WHERE name = 'purge'"
        )

        found = scrape()

        assert 3600 <= found["pgqueue_schedule_late_seconds", "nightly"] < 3700
        assert 7200 <= found["pgqueue_duty_late_seconds", "purge"] < 7300

    def test_counts_flows_and_those_that_a_dead_message_stops(
        self, scrape: Scrape, connection: psycopg.Connection[Any]
    ) -> None:
        bury(connection)
        with flow("ends") as ends:
            ends.enqueue(divide, 1)
        with flow("waits") as waits:
            waits.enqueue(divide.using(run_after=3600), 1)
        with flow("stops") as stops:
            bad = [stops.enqueue(divide, 0) for _ in range(2)]
            stops.enqueue(divide, 1, after=bad)
        before = scrape()

        call_command("runworker", "--drain", verbosity=0)
        engine.end(connection)
        after = scrape()

        assert (before["pgqueue_flows",], before["pgqueue_flows_stopped",]) == (3, 0)
        assert (after["pgqueue_flows",], after["pgqueue_flows_stopped",]) == (2, 1)

    def test_tells_what_durable_runs_wait_for_and_for_how_long(self, scrape: Scrape) -> None:
        for _ in range(2):
            durable.asks.enqueue()
        durable.naps.enqueue()
        run_all(raise_errors=True)
        with django_connection.cursor() as cursor:
            cursor.execute(
                "UPDATE pgqueue_step SET started_at = started_at - interval '1 hour' "
                "WHERE message_id = (SELECT min(message_id) FROM pgqueue_step)"
            )

        found = scrape()

        name = durable.asks.name
        assert found["pgqueue_suspended", name, "signal"] == 2
        assert found["pgqueue_suspended", durable.naps.name, "sleep"] == 1
        assert 3600 <= found["pgqueue_longest_wait_seconds", name, "signal"] < 3700
        assert found["pgqueue_longest_wait_seconds", durable.naps.name, "sleep"] < 100

    def test_tells_of_webhooks_that_fail_and_of_no_others(self, scrape: Scrape) -> None:
        since = datetime.now(UTC) - timedelta(minutes=10)
        for name in ("works", "fails", "gone"):
            webhooks.create(name, "https://shop.example/hooks", topics="#", secret=new_secret())
        Webhook.objects.filter(pk="fails").update(failures=3, failing_since=since)
        Webhook.objects.filter(pk="gone").update(failures=9, failing_since=since)
        Subscription.objects.filter(pk="gone").update(paused=True, error="Nothing but failures.")

        found = scrape()

        stopped = {name[1]: found[name] for name in found if name[0] == "pgqueue_webhook_stopped"}
        assert stopped == {"fails": 0, "gone": 1}
        assert 600 <= found["pgqueue_webhook_failing_seconds", "fails"] < 700
        assert ("pgqueue_webhook_failing_seconds", "works") not in found

    def test_tells_of_the_wal_feed_where_there_is_to_be_one(
        self, scrape: Scrape, connection: psycopg.Connection[Any]
    ) -> None:
        without = scrape()
        with by_wal():
            missing = scrape()
            with slot_made():
                connection.execute(
                    "SELECT pg_logical_emit_message(false, 'test', repeat('x', 9999))"
                )
                # It is counted once it is written, a moment later.
                eventually(lambda: scrape()["pgqueue_wal_lag_bytes",] >= 9999)
                alone = scrape()
                with feeding():
                    followed = eventually(
                        lambda: (now := scrape())["pgqueue_wal_feed_active",] == 1 and now
                    )

        lag, active = ("pgqueue_wal_lag_bytes",), ("pgqueue_wal_feed_active",)
        assert lag not in without and active not in without
        assert lag not in missing and missing[active] == 0
        assert alone[active] == 0
        assert followed and lag in followed

    def test_is_refused_with_503_while_the_database_is_away(
        self, scrape: Scrape, connection: psycopg.Connection[Any]
    ) -> None:
        scrape()
        own = django_connection.connection
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", [own.info.backend_pid])

        response = Client().get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        django_connection.close()

        assert response.status_code == 503
        assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert "terminat" in response.text
        assert scrape()

    def test_leaves_series_out_beyond_a_limit_and_says_so(
        self, scrape: Scrape, connection: psycopg.Connection[Any]
    ) -> None:
        for name in ("a", "b", "c"):
            enqueue(connection, channel=name)

        with patch.object(fleet, "LIMIT", 2):
            found = scrape()

        assert len([name for name in found if name[0] == "pgqueue_channel_paused"]) == 2
        assert found["pgqueue_scrape_left_out", "messages"] == 1

    def test_tells_of_the_channels_that_an_alert_may_be_about(
        self, scrape: Scrape, connection: psycopg.Connection[Any]
    ) -> None:
        for name in ("a", "b", "z"):
            enqueue(connection, channel=name)
        connection.execute(
            "UPDATE pgqueue_message SET run_at = run_at - interval '1 hour' WHERE channel = 'z'"
        )

        with patch.object(fleet, "LIMIT", 1):
            found = scrape()

        assert [name[1] for name in found if name[0] == "pgqueue_oldest_ready_age_seconds"] == ["z"]

    def test_tells_of_days_duties_and_notifications(
        self, scrape: Scrape, connection: psycopg.Connection[Any]
    ) -> None:
        duty.due(connection, ["purge", "lanes"])
        duty.failed(connection, "purge")
        connection.execute(
            "UPDATE pgqueue_duty SET failing_since = failing_since - interval '1 hour'"
        )

        found = scrape()

        assert found["pgqueue_history_days_ahead",] == 14
        assert 0 <= found["pgqueue_notification_queue_usage",] < 1
        assert found["pgqueue_duty_failing_seconds", "purge"] >= 3600
        assert found["pgqueue_duty_failing_seconds", "lanes"] == 0

    def test_tells_of_no_duty_that_this_version_does_not_have(
        self, scrape: Scrape, connection: psycopg.Connection[Any]
    ) -> None:
        duty.due(connection, ["purge", "of a newer version"])
        duty.failed(connection, "of a newer version")

        found = scrape()

        assert [name[1:] for name in found if name[0].startswith("pgqueue_duty_")] == [
            ("purge",),
            ("purge",),
        ]

    def test_tells_how_far_each_export_is_behind(
        self, scrape: Scrape, connection: psycopg.Connection[Any], settings: Any
    ) -> None:
        ended(connection, ago=timedelta(hours=2))
        done = Position(*one(connection, "SELECT txid, id FROM pgqueue_history"))
        ended(connection, 2, ago=timedelta(hours=1))
        logged(connection, 1, ago=timedelta(hours=3))
        exported(connection, done, name="/lake", ago=timedelta(days=1))
        kept = past(connection, 50)

        found = scrape()
        settings.PGQUEUE = {**settings.PGQUEUE, "EXPORT_BEFORE_DROP": True}
        waiting = scrape()
        connection.execute(f"DROP TABLE {kept}")

        assert 86_400 <= found["pgqueue_export_age_seconds", "/lake"] < 86_500
        assert found["pgqueue_export_lag_messages", "/lake"] == 3
        assert found["pgqueue_export_lag_events", "/lake"] == 1
        assert 10_800 <= found["pgqueue_export_lag_seconds", "/lake"] < 10_900
        assert found["pgqueue_history_days_kept",] == 0
        assert waiting["pgqueue_history_days_kept",] == 1

    def test_goes_on_without_a_part_that_can_t_be_told(
        self, scrape: Scrape, connection: psycopg.Connection[Any]
    ) -> None:
        with patch.dict(fleet.PARTS, groups=_failing):  # type: ignore[dict-item]
            found = scrape()

        assert found["pgqueue_scrape_failed", "groups"] == 1
        assert found["pgqueue_scrape_failed", "webhooks"] == 0
        assert ("pgqueue_workers", "worker") in found

    def test_names_units_and_types_as_prometheus_has_them(self, scrape: Scrape) -> None:
        divide.enqueue(1)
        call_command("runworker", "--drain", verbosity=0)

        types = {family.name: family.type for family in families()}

        assert types["pgqueue_runs"] == "counter"
        assert types["pgqueue_wait_seconds"] == types["pgqueue_run_seconds"] == "histogram"
        assert all(family.documentation for family in families())
        rest = {name for name, kind in types.items() if kind == "gauge"}
        counters = {"pgqueue_runs", "pgqueue_tenant_runs"}
        histograms = {"pgqueue_wait_seconds", "pgqueue_run_seconds"}
        assert rest | counters | histograms == set(types)


def _failing(connection: psycopg.Connection[Any], left_out: Any) -> Any:
    return connection.execute("SELECT nothing FROM nowhere").fetchall()


class TestWhoMayScrape:
    def test_nobody_where_no_token_is_set(self) -> None:
        assert Client().get("/metrics").status_code == 403
        assert _get("Bearer ").status_code == 403
        assert _get("Basic Og==").status_code == 403

    def test_who_knows_the_token(self, scrape: Scrape) -> None:
        password = base64.b64encode(f"prometheus:{TOKEN}".encode()).decode()

        assert _get(f"Bearer {TOKEN}").status_code == 200
        assert _get(f"Basic {password}").status_code == 200
        for wrong in ("", "Bearer", f"Bearer {TOKEN}x", "Basic x", f"Digest {TOKEN}"):
            assert _get(wrong).status_code == 401

    def test_staff_who_may_view_messages(self) -> None:
        clerk = User.objects.create_user("clerk", is_staff=True)
        client = Client()
        client.force_login(clerk)

        before = client.get("/metrics").status_code
        clerk.user_permissions.add(Permission.objects.get(codename="view_message"))

        assert (before, client.get("/metrics").status_code) == (403, 200)

    def test_only_to_read(self) -> None:
        assert Client().post("/metrics").status_code == 405


def _get(authorization: str) -> Any:
    return Client().get("/metrics", headers={"Authorization": authorization})
