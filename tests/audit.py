"""Ask whether anything that requirements/ pins has a known vulnerability.

python -m tests.audit PIP_AUDIT [FILES …] runs pip-audit on each file. Its exit status is 0 if there
is none, 1 if there is one, and 3 if the advisories can't be asked. First it asks about a release
whose vulnerabilities are known: a proxy that answers everything would else be taken for good news.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

ROOT = Path(__file__).parent.parent
PINNED = sorted(str(each) for each in (ROOT / "requirements").glob("*.txt"))
URL = "https://api.osv.dev/v1/query"
VULNERABLE = {"package": {"name": "jinja2", "ecosystem": "PyPI"}, "version": "2.4.1"}
SECONDS = 20
FINE, FOUND, UNREACHABLE = 0, 1, 3


def reason(url: str = URL) -> str | None:
    """Return why advisories can't be asked; None: they can."""
    request = Request(  # noqa: S310
        url, json.dumps(VULNERABLE).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            told = json.load(answer)
    except (URLError, OSError, ValueError) as error:
        return str(error)
    if not (isinstance(told, dict) and told.get("vulns")):
        return "the answer names no vulnerability of a release that has some"
    return None


def audit(program: str, files: Sequence[str] = PINNED, *, url: str = URL) -> int:
    """Audit files, and return the exit status."""
    if unknown := reason(url):
        print(f"Not audited: the advisories of {url} can't be asked ({unknown}).", file=sys.stderr)
        print("Run it where they can be reached: nothing is known about the pins.", file=sys.stderr)
        return UNREACHABLE
    statuses = [_audited(program, file) for file in files]
    return FOUND if any(statuses) else FINE


def _audited(program: str, file: str) -> int:
    print(f"{os.path.relpath(file, ROOT)}:", flush=True)
    # All is pinned: nothing is resolved, and nothing is left out in silence.
    options = ["--strict", "--vulnerability-service", "osv", "--no-deps", "--disable-pip"]
    done = subprocess.run([program, *options, "--progress-spinner", "off", "-r", file], check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(audit(sys.argv[1], sys.argv[2:] or PINNED))
