"""Whether `make audit` says what it knows: none, some, or that nobody could be asked."""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests import audit, programs

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
    named = set(re.findall(r"requirements/([\w-]+\.txt)", makefile.replace("$(DJANGO)", "52")))

    assert named
    assert named <= {Path(each).name for each in audit.PINNED}
    for each in audit.PINNED:
        assert all("==" in line for line in pins(each)), each


def test_every_release_that_is_installed_by_make_has_its_hashes() -> None:
    recipes = (ROOT / "Makefile").read_text() + (ROOT / ".ci" / "run").read_text()
    # `PIP` is pip or uv, whichever is there.
    installs = re.findall(
        r"(?:-m pip (?:--python \S+ )?install|\$\(call PIP,[^\n ]*\)) [^\n]*", recipes
    )
    definition = re.search(r"^PIP = .*$", recipes, re.MULTILINE)
    assert definition
    installs = [line for line in installs if line not in definition[0]]

    assert len(installs) > 8
    for line in installs:
        ours = "--no-deps --no-build-isolation -e ." in line or line.endswith("dist/*.whl")
        assert ours or "--require-hashes" in line, line
    for each in audit.PINNED:
        lines = Path(each).read_text().splitlines()
        bare = [
            line
            for line, following in pairwise(lines)
            if re.match(r"\w", line) and "--hash=sha256:" not in following
        ]
        assert bare == [], f"{each} lacks hashes: run `make constraints`"


def test_each_action_of_a_workflow_is_pinned_by_its_commit() -> None:
    workflows = [path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    actions = re.findall(r"uses: (\S+)", "\n".join(workflows))

    assert len(actions) > 5
    loose = [action for action in actions if not re.search(r"@[0-9a-f]{40}$", action)]
    assert loose == [], "a tag can be moved to other code: write the commit, and the tag behind it"


def test_the_workflow_runs_what_a_change_must_pass() -> None:
    assert " .ci/run\n" in (ROOT / ".github" / "workflows" / "ci.yml").read_text()


BY_HAND = {"demo", "history", "messages", "constraints", "audit", "clean"} | {
    *("bench", "bench-peers", "bench-neutral"),  # alone on a machine
}


def test_each_target_is_run_by_a_workflow_unless_by_hand() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony, checks = (
        set(re.findall(rf"^{name}: (.+)$", makefile, re.M)[0].split())
        for name in (r"\.PHONY", "check")
    )
    files = [*(ROOT / ".github" / "workflows").glob("*.yml"), ROOT / ".ci" / "run"]
    text = "\n".join(path.read_text() for path in files)
    commands = re.findall(r"^[^#\n]*\b(?:make|suite) (.+)$", text, re.M)
    run = {word for command in commands for word in command.split()}

    assert phony - run - checks == BY_HAND


def test_the_page_about_tests_has_each_target_and_no_other() -> None:
    makefile = (ROOT / "Makefile").read_text()
    page = (ROOT / "docs" / "internals" / "running.md").read_text("utf-8")
    phony = set(re.findall(r"^\.PHONY: (.+)$", makefile, re.M)[0].split())
    parts = set(re.findall(r"^check: (.+)$", makefile, re.M)[0].split())

    assert set(re.findall(r"`make ([a-z-]+)", page)) == phony - parts - {"clean"}


@pytest.mark.parametrize("version", ["15", "16"])
def test_each_night_has_another_postgresql(version: str) -> None:
    nightly = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()

    assert f"run: make test-postgres VERSION={version}\n" in nightly


def test_each_night_has_the_whole_suite_with_the_newest_django() -> None:
    nightly = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    newest = max(re.findall(r"(\d+):3\.\d+", (ROOT / "Makefile").read_text()))

    for target in ("test", "test-slow"):
        assert f'run: make {target} DJANGO={newest} PYTHON="$(.ci/python-3.14)"\n' in nightly


@pytest.mark.parametrize(
    "target",
    ["chaos", "fuzz", "interleave", "mixed-fleet", "model", "prove", "prove-mutations", "soak"],
)
def test_a_run_of_other_choices_takes_a_seed(target: str) -> None:
    command = [programs.find("make", package="make"), "--dry-run", target, "SEED=4711"]
    # This test may be run by make, which leaves its flags to it.
    ours = {name: each for name, each in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(command, cwd=ROOT, env=ours, check=True, capture_output=True, text=True)

    assert "=4711" in done.stdout


@pytest.mark.parametrize("django", ["52", "60", "61"])
def test_the_suite_s_releases_are_those_of_all_extras(django: str) -> None:
    all_extras = ROOT / f"requirements/django{django}-all.txt"

    assert set(pins(ROOT / f"requirements/django{django}.txt")) <= set(pins(all_extras))


def pins(file: str | Path) -> list[str]:
    return [line for line in Path(file).read_text().splitlines() if re.match(r"\w", line)]


def test_what_each_extra_brings_is_pinned() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    named = re.findall(
        r"^([A-Za-z][\w.-]*)", "\n".join(config["options.extras_require"].values()), re.M
    )
    pinned = (ROOT / "requirements/django52-all.txt").read_text().lower()

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
