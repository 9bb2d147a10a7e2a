"""The options of `runworker` for its port, and the port."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from django.core.management.base import CommandError

from pgqueue.management import arguments
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.report import WorkerSnapshot

ADDRESS = "127.0.0.1"
LAST_PORT = 65_535

Serving = Callable[[Callable[[], WorkerSnapshot]], AbstractContextManager[None]]


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--metrics-port",
        type=arguments.whole(least=1, most=LAST_PORT),
        metavar="PORT",
        help="serve /metrics for Prometheus, and /healthz and /livez for probes, at this port for "
        "all processes. It needs pgqueue[prometheus].",
    )
    parser.add_argument(
        "--metrics-address",
        type=arguments.address,
        metavar="ADDRESS",
        help=f"the address of that port ({ADDRESS}); 0.0.0.0: all addresses of this machine.",
    )


def check_port_options(options: dict[str, Any]) -> None:
    """Check that the options fit together.

    Raises:
        CommandError: an option contradicts another one.
    """
    if options["metrics_address"] and not options["metrics_port"]:
        raise CommandError("--metrics-address needs --metrics-port.")
    if options["executor"] and options["metrics_port"]:
        raise CommandError(
            "--executor spark excludes --metrics-port: the workers run elsewhere. "
            "pgqueue.metrics.view serves their metrics."
        )


def opened(config: WorkerConfig) -> Serving:
    """Open the port if the options name one; return a context manager that serves it.

    Raises:
        CommandError: prometheus_client is not installed, or the port is not available.
    """
    if config.metrics_port is None:
        return lambda snapshot: nullcontext()
    try:
        # Without a port, a worker needs no prometheus_client.
        from pgqueue.metrics.port import Port
    except ImportError as error:
        raise CommandError(
            "--metrics-port needs prometheus_client: pip install 'pgqueue[prometheus]'."
        ) from error
    try:
        return Port(config.metrics_address, config.metrics_port).serving
    except (OSError, UnicodeError) as error:
        where = f"{config.metrics_address} port {config.metrics_port}"
        raise CommandError(f"--metrics-port: {where} is not available: {error}") from error
