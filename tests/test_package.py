"""The package as others install it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import pgqueue
from pgqueue import exceptions

ROOT = Path(__file__).parent.parent
# In one process: others would install it once more.
pytestmark = pytest.mark.xdist_group("package")


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty virtual environment with pgqueue installed as a user would; returns its python."""
    # From a copy: building leaves things beside what it builds, and takes them for true.
    source = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "pgqueue", source / "pgqueue")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    folder = tmp_path_factory.mktemp("venv")
    # By this environment's pip, and without bytecode: what is run there imports next to nothing.
    venv.create(folder)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "install", "--quiet", "--no-compile", source],
        check=True,
        timeout=300,
    )
    return python


@pytest.mark.timeout(400)
def test_importing_it_needs_neither_settings_nor_spark_nor_the_embedded_server(empty: Path) -> None:
    script = (
        "import sys, pgqueue\n"
        "assert 'django' not in sys.modules, 'imports Django'\n"
        "pgqueue.task, pgqueue.Exponential, pgqueue.Task, pgqueue.TaskFailed, dir(pgqueue)\n"
        "from django.conf import settings\n"
        "assert not settings.configured, 'reads the settings'\n"
        "print(pgqueue.__file__)\n"
    )

    done = subprocess.run(
        [empty, "-I", "-c", script], cwd="/", capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert "site-packages" in done.stdout


@pytest.mark.timeout(400)
def test_the_installed_package_has_every_file_that_is_not_python(empty: Path) -> None:
    script = "import pathlib, pgqueue; print(pathlib.Path(pgqueue.__file__).parent)"
    done = subprocess.run(
        [empty, "-I", "-c", script], cwd="/", capture_output=True, text=True, timeout=60
    )
    installed = Path(done.stdout.strip())

    ours = {
        path.relative_to(ROOT / "pgqueue")
        for path in (ROOT / "pgqueue").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert ours
    assert {path for path in ours if not (installed / path).is_file()} == set()


def test_every_public_name_can_be_imported_from_the_package() -> None:
    for name in pgqueue.__all__:
        assert getattr(pgqueue, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pgqueue.nothing  # noqa: B018


def test_every_line_of_the_list_of_public_names_is_read() -> None:
    lines = Path(pgqueue.__file__).with_suffix(".pyi").read_text("utf-8").splitlines()
    imports = [each for each in lines if each.startswith("from ")]

    assert len(pgqueue.__all__) == len(imports) > 100


def test_every_error_that_users_catch_is_a_public_name() -> None:
    # The first is the base of Retry, Defer, Discard and Cancel; the others are only ever stored.
    ours = {"EndOfRun", "ReaderLost", "RetryRequested", "TickMissed", "UnreadableMessage"}
    errors = {
        name
        for name, each in vars(exceptions).items()
        if isinstance(each, type) and issubclass(each, BaseException)
    }

    assert errors - ours == errors & set(pgqueue.__all__)
    assert ours <= errors
