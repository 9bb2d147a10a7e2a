"""Commands that need no database, where it refuses connections: as an image is built."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.processes import ROOT, manage

# Port 1 refuses connections.
ENVIRONMENT = {
    "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
    "DJANGO_SETTINGS_MODULE": "tests.unreachable",
}


@pytest.mark.parametrize("settings", ["tests.settings", "tests.unreachable"])
@pytest.mark.parametrize("command", [["check"], ["makemigrations", "--check"]])
def test_a_command_that_needs_no_database_connects_to_none(
    command: list[str], settings: str
) -> None:
    done = manage(*command, **{**ENVIRONMENT, "DJANGO_SETTINGS_MODULE": settings})

    assert done.returncode == 0, done.stderr


def test_the_development_server_starts_without_the_database_of_the_queue() -> None:
    server = subprocess.Popen(
        [sys.executable, "-u", "manage.py", "runserver", "--noreload", "127.0.0.1:0"],
        cwd=ROOT,
        env={**os.environ, **ENVIRONMENT},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    try:
        assert server.stdout
        said = []
        for line in server.stdout:  # until it serves, or ends
            said.append(line)
            if "Quit the server" in line:
                break
    finally:
        server.kill()
        server.communicate()

    assert any("Starting" in line for line in said), "".join(said)
