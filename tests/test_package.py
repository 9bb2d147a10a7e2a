"""The package as others install it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

import pgqueue
from pgqueue import exceptions

ROOT = Path(__file__).parent.parent
TOP = ("CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md", "SECURITY.md", "pyproject.toml",
       "pyspark_pgqueue.py", "setup.cfg")  # fmt: skip
# In one process: others would install it once more.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("package")]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, as it is uploaded."""
    # From a copy: a build writes files beside its sources, and the next build would read them.
    source = tmp_path_factory.mktemp("source")
    for folder in ("pgqueue", "testproject"):
        shutil.copytree(ROOT / folder, source / folder)
    for name in (*TOP, "tests/test_package.py"):
        (source / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    script = "from setuptools import build_meta; build_meta.build_sdist('dist')"
    subprocess.run(
        [sys.executable, "-c", script], cwd=source, check=True, capture_output=True, timeout=120
    )
    (built,) = (source / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory, sdist: Path) -> Path:
    """An empty virtual environment with pgqueue installed as a user would; returns its python."""
    folder = tmp_path_factory.mktemp("venv")
    # By this environment's pip, and without bytecode: what is run there imports next to nothing.
    venv.create(folder)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "install", "--quiet", "--no-compile", sdist],
        check=True,
        timeout=300,
    )
    return python


def test_the_source_distribution_has_the_package_and_no_tests(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    of_setuptools = {name for name in names if name.startswith("pgqueue.egg-info")}
    at_the_top = {name for name in names - of_setuptools if not name.startswith("pgqueue")}
    assert at_the_top == {"", "PKG-INFO", *TOP}, "MANIFEST.in says which files are distributed"
    assert {f"pgqueue/{path}" for path in ours()} <= names


def ours() -> set[Path]:
    """Return the files of the package, as paths inside it."""
    return {
        path.relative_to(ROOT / "pgqueue")
        for path in (ROOT / "pgqueue").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


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

    assert len(ours()) > 400
    assert {path for path in ours() if not (installed / path).is_file()} == set()


def test_every_public_name_can_be_imported_from_the_package() -> None:
    constants = {"NO_EVENT"}
    for name in pgqueue.__all__:
        assert name in constants or getattr(pgqueue, name).__name__ == name
    assert pgqueue.NO_EVENT == 0
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pgqueue.nothing  # noqa: B018


def test_every_line_of_the_list_of_public_names_is_read() -> None:
    lines = Path(pgqueue.__file__).with_suffix(".pyi").read_text("utf-8").splitlines()
    imports = [each for each in lines if each.startswith("from ")]

    assert len(pgqueue.__all__) == len(imports) > 100


def test_every_error_that_users_catch_is_a_public_name() -> None:
    # EndOfRun is the base of Retry, Defer, Discard and Cancel. Only the worker catches Suspend. The
    # others are only ever stored.
    ours = {
        *("EndOfRun", "ReaderLost", "RetryRequested", "Suspend", "TickMissed", "UnreadableMessage")
    }
    errors = {
        name
        for name, each in vars(exceptions).items()
        if isinstance(each, type) and issubclass(each, BaseException)
    }

    assert errors - ours == errors & set(pgqueue.__all__)
    assert ours <= errors
