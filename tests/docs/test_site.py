"""`make docs` writes llms.txt and llms-full.txt beside the pages, and keeps links in the site."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

pytestmark = pytest.mark.docs
SITE = ROOT / "build" / "docs"
INDEX = "docs/index.html"


def written(name: str) -> str:
    return (SITE / name).read_text("utf-8")


def pages() -> set[str]:
    """Return the pages whose sources the repository has, but for the first one."""
    sources = [*ROOT.glob("*.md"), ROOT / "tests" / "benchmarks" / "RESULTS.md"]
    sources += [each for each in (ROOT / "docs").rglob("*") if each.suffix in (".md", ".rst")]
    return {str(each.relative_to(ROOT).with_suffix(".html")) for each in sources} - {INDEX}


def test_llms_txt_lists_each_page_once() -> None:
    text = written("llms.txt")
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", text, re.M)

    assert text.startswith("# pgqueue\n\n> ")
    assert len(listed) == len(set(listed)) > 60
    assert set(listed) == pages()
    assert [page for page in listed if not (SITE / page).is_file()] == []


def test_llms_txt_says_what_each_page_of_the_guide_is_about() -> None:
    lines = [line for line in written("llms.txt").splitlines() if "(docs/guide/" in line]

    assert [line for line in lines if not re.search(r"\): \w.{20,}", line)] == []


def test_llms_full_txt_has_the_text_of_each_page() -> None:
    text = written("llms-full.txt")
    parts = dict(
        re.findall(r"^<!-- (\S+\.html) -->\n\n(.*?)(?=^<!-- \S+\.html|\Z)", text, re.M | re.S)
    )

    assert set(parts) == pages() | {INDEX}
    assert "@task(channel=" in parts["README.html"]
    assert "max_attempts" in parts["docs/reference/tasks.html"]
    assert [name for name, part in parts.items() if len(part) < 200] == []


def test_the_links_of_readme_stay_in_the_site() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    links = re.findall(r'href="([^"]+)"', written("README.html"))

    assert "docs/tutorial.html" in links
    assert [link for link in links if link.startswith(f"{config['metadata']['url']}/blob")] == []
    assert all((SITE / Path(link.partition("#")[0])).exists() for link in links if ".html" in link)
