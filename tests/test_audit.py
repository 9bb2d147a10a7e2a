"""Whether `make audit` says what it knows: none, some, or that nobody could be asked."""

from __future__ import annotations

import configparser
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests import audit

ROOT = audit.ROOT
KNOWN = {"vulns": [{"id": "PYSEC-2014-8"}]}


@pytest.fixture
def advisories() -> Iterator[Any]:
    """A function that serves an answer in the place of the advisories; it returns the URL."""
    servers = []

    def serve(answer: object) -> str:
        class Answering(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200 if asked == audit.VULNERABLE else 400)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            def log_message(self, *args: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        servers.append(server)
        Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def program(tmp_path: Path) -> str:
    """What behaves as pip-audit does: it fails if the file has a pin that is vulnerable."""
    path = tmp_path / "pip-audit"
    path.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "assert '--strict' in sys.argv\n"
        "sys.exit('jinja2==2.4.1' in open(sys.argv[-1]).read())\n"
    )
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    names = {"good.txt": "jinja2==3.1.6\n", "bad.txt": "jinja2==2.4.1\n", "more.txt": ""}
    for name, text in names.items():
        (tmp_path / name).write_text(text)
    return [str(tmp_path / name) for name in names]


def test_pins_without_a_known_vulnerability_are_fine(
    advisories: Any, program: str, files: list[str]
) -> None:
    assert audit.audit(program, [files[0], files[2]], url=advisories(KNOWN)) == 0


def test_one_vulnerable_pin_in_one_file_is_enough(
    advisories: Any, program: str, files: list[str]
) -> None:
    assert audit.audit(program, files, url=advisories(KNOWN)) == 1


@pytest.mark.parametrize("answer", [{}, {"vulns": []}, [], "login"])
def test_an_answer_that_knows_nothing_is_no_good_news(
    advisories: Any, program: str, files: list[str], answer: object, capsys: Any
) -> None:
    assert audit.audit(program, files, url=advisories(answer)) == 3
    assert "Not audited" in capsys.readouterr().err


def test_where_nobody_answers_it_says_so(program: str, files: list[str], capsys: Any) -> None:
    assert audit.audit(program, files, url="http://127.0.0.1:9/") == 3
    assert "nothing is known about the pins" in capsys.readouterr().err


def test_everything_that_is_installed_by_make_is_audited() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"requirements/(\w+\.txt)", makefile.replace("$(DJANGO)", "52")))

    assert named
    assert named <= {Path(each).name for each in audit.PINNED}
    for each in audit.PINNED:
        pins = [line for line in Path(each).read_text().splitlines() if re.match(r"\w", line)]
        assert all("==" in line for line in pins), each


def test_what_each_extra_brings_is_pinned() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    named = re.findall(
        r"^([A-Za-z][\w.-]*)", "\n".join(config["options.extras_require"].values()), re.M
    )
    pinned = (ROOT / "requirements/django52.txt").read_text().lower()

    assert len(named) > 30
    assert [name for name in named if f"\n{name.lower()}" not in pinned] == []


def test_the_rules_of_bandit_are_on() -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    off = [rule for rule in lint["ignore"] if rule.startswith("S") and rule[1:].isdigit()]

    assert "S" in lint["select"]
    # Subprocesses run commands of ours. RUF100 says which "noqa" is not needed.
    assert off == ["S603"]
    assert "RUF" in lint["select"]
    assert not [path for path in lint["per-file-ignores"] if path.startswith("pgqueue")]
