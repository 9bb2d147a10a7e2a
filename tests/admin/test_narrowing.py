"""What a list of messages is narrowed by, an operation on all of it is narrowed by, too."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import fields
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest, QueryDict
from django.test import Client

from pgqueue.admin.bulk import PARAMETERS, SEARCHED, filter_of, list_url
from pgqueue.admin.filters import TextFilter
from pgqueue.admin.message import MessageAdmin
from pgqueue.admin.operations import filters_of
from pgqueue.management.selection import add_filters, wanted
from pgqueue.models import Message
from pgqueue.operating import bulk
from tests.admin.acting import BULK
from tests.admin.conftest import Connection
from tests.factories import enqueue

VALUES = {
    "state": "dead",
    "channel": "mail",
    "task": "shop.send",
    "key": "k",
    "error": "Boom",
    "flow": 7,
    "waits": "signal:approved",
    "match": "args.order.id=7",
}
"""A value for each name. A new name of `bulk.Filter` needs a value here, and words elsewhere."""


def test_every_name_has_a_value_here():
    assert VALUES.keys() == {each.name for each in fields(bulk.Filter)}


def test_the_list_filters_by_what_operations_know_and_by_nothing_else():
    parameters = [choice.parameter_name for choice in MessageAdmin.list_filter]

    assert [*parameters, SEARCHED] == [*PARAMETERS, SEARCHED]
    assert {*parameters, SEARCHED} == VALUES.keys()


@pytest.mark.parametrize("name", VALUES)
def test_a_lists_address_leads_to_the_same_filter(db: None, name: str):
    chosen = bulk.Filter(**{name: VALUES[name]})

    assert filter_of(QueryDict(list_url(chosen).partition("?")[2])) == chosen


@pytest.mark.parametrize("name", VALUES)
def test_list_operation_and_command_want_the_same_rows(queue: Connection, rf: Any, name: str):
    enqueue(queue)
    parser = ArgumentParser()
    add_filters(parser)

    request: HttpRequest = rf.get("/")
    value = VALUES[name]
    chosen = {} if name == SEARCHED else {name: str(value)}
    listing = MessageAdmin(Message, admin.site).get_listing(
        request, chosen, str(value) if name == SEARCHED else ""
    )
    expected = bulk.Filter(**{name: value}).wanted()

    condition = str(listing.rows.query) + repr(listing.sought)
    assert all(str(each) in condition for each in expected.values() if isinstance(each, str | int))
    if name != "state":
        options = vars(parser.parse_args([f"--{name}", str(value)]))
        assert wanted(options) == expected


class OwnFilter(TextFilter):
    title = "own"
    parameter_name = "own"


class OwnAdmin(MessageAdmin):
    list_filter = (*MessageAdmin.list_filter, OwnFilter)


def test_a_filter_that_operations_do_not_know_leaves_no_operation_on_all(rf: Any):
    def links(**query: str) -> list[Any]:
        request = rf.get("/", query)
        request.user = User(is_superuser=True, is_active=True)
        return OwnAdmin(Message, admin.site)._bulk_links(request)

    assert links(channel="mail")
    assert not links(channel="mail", own="x")


def test_all_rows_of_a_list_keep_a_filter_that_operations_do_not_know(rf: Any):
    request = rf.get("/", {"channel": "mail", "own": "x", "p": "1"})

    assert filters_of(OwnAdmin(Message, admin.site), request) == {"channel": "mail", "own": "x"}


def test_an_operation_is_refused_where_it_would_ignore_a_filter(db: None, operator: Client):
    assert operator.get(f"{BULK}?action=replay&channel=mail&own=x").status_code == 400
    assert operator.get(f"{BULK}?action=replay&chanel=mail").status_code == 400
