"""The code of the guide about traces."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pgqueue import send, telemetry
from pgqueue.calls import tracing
from pgqueue.telemetry import gauges
from tests.docs.blocks import blocks
from tests.telemetry.reading import Traces, continues

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_code_of_the_guide_traces_measures_and_processes(
    traces: Traces, providers: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    setting_up, processing, observing, _ = blocks("docs/guide/tracing.md", "python")
    names: dict[str, Any] = {}
    telemetry.uninstrument()

    exec(setting_up.code, names)  # noqa: S102
    names["ShopConfig"]("shop", sys.modules[__name__]).ready()
    assert tracing.tracer is not None
    telemetry.uninstrument()
    telemetry.instrument(**providers)
    send("mail", {"n": 1})
    exec(processing.code, names)  # noqa: S102
    exec(observing.code, names)  # noqa: S102

    assert "{'n': 1}" in capsys.readouterr().out
    assert continues(traces.one("process mail"), traces.one("send mail"))
    assert gauges._observed == {"default"}
