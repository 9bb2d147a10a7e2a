"""The database's URL is given, or found where it is kept; it is never shown."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from pgqueue.arrow.urls import connect, resolve
from pgqueue.spark import InvalidOption

SECRET = "s3cret-w0rd"


def test_it_may_be_in_a_variable_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", " postgresql://a/b\n")
    (tmp_path / "url").write_text("postgresql://c/d\n")

    assert resolve("env:WHERE") == "postgresql://a/b"
    assert resolve(f"file:{tmp_path}/url") == "postgresql://c/d"
    assert resolve("postgresql://e/f") == "postgresql://e/f"


def test_where_it_is_not_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPTY", "")
    (tmp_path / "empty").write_text("\n")

    with pytest.raises(InvalidOption, match="env:NOWHERE, but that variable is not set"):
        resolve("env:NOWHERE")
    with pytest.raises(InvalidOption, match="env:EMPTY, but that variable is not set"):
        resolve("env:EMPTY")
    with pytest.raises(InvalidOption, match="No such file"):
        resolve(f"file:{tmp_path}/none")
    with pytest.raises(InvalidOption, match="that file is empty"):
        resolve(f"file:{tmp_path}/empty")


@pytest.mark.parametrize("url", ["postgresql://u:{}@[h/d", "user=u password={} nonsense"])
def test_one_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InvalidOption, match="no connection URL") as raised:
        connect(url.format(SECRET), name="test")

    assert SECRET not in str(raised.value)
    assert raised.value.__suppress_context__


def test_a_server_that_refuses_is_named_without_the_password() -> None:
    with pytest.raises(psycopg.OperationalError) as raised:
        connect(f"postgresql://someone:{SECRET}@127.0.0.1:1/db", name="test")

    assert SECRET not in str(raised.value)
    assert "127.0.0.1" in str(raised.value)


def test_postgresql_shows_what_connected(url: str) -> None:
    with connect(f"{url} application_name=lake", name="read") as connection:
        row = connection.execute("SHOW application_name").fetchone()

    assert row == ("lake pgqueue spark read",)
