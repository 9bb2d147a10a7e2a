"""`runworker --drain` leaves nothing that only another worker would note."""

from __future__ import annotations

import pytest
from django.core.management import call_command

from pgqueue import flow
from pgqueue.models import Flow, Message
from tests.flow_jobs import number, total

pytestmark = pytest.mark.django_db(transaction=True)


def test_flows_that_have_ended_are_noted_as_such() -> None:
    # Its duty was done just now, so that it is not due again for seconds.
    call_command("runworker", "--drain", verbosity=0)
    with flow("nightly") as nightly:
        parts = [nightly.enqueue(number, value) for value in range(3)]
        nightly.enqueue(total, parts)

    call_command("runworker", "--drain", verbosity=0)

    assert not Message.objects.exists()
    assert Flow.objects.get().ended_at is not None
