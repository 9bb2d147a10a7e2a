"""Do all scenarios; print what came of each as JSON: python observe.py WORKERS_COMMAND…"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 60  # seconds, for all together
QUIET = 4  # seconds without a note, after which nothing more is expected
HANGS = 12  # seconds without a note, after which what has not ended never will


def observed(command):
    """Return what is seen of each scenario."""
    import django

    django.setup()
    from compared.canvases import made
    from compared.scenarios import REVOKED, scenarios

    called = {name: (spec, None) for name, spec in scenarios().items()} | REVOKED
    worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sys.stderr)
    try:
        made(["add", 1, 1], "the first").delay().get(timeout=PATIENCE)  # the worker is ready
        results = {}
        for name, (spec, revoked) in called.items():
            results[name] = call(made(spec, name))
            if revoked is not None:
                found = results[name]
                for step in revoked:
                    found = getattr(found, step) if isinstance(step, str) else found[step]
                found.revoke()
        say("called")
        wait(results)
        say("waited")
        ends = {
            name: {"get": get(result), "states": walk(result)} for name, result in results.items()
        }
    finally:
        worker.terminate()
        try:
            worker.wait(20)
        except subprocess.TimeoutExpired:
            worker.kill()
    say("ended")
    notes = {name: [] for name in called}
    for line in Path(os.environ["SITE_NOTES"]).read_text("utf-8").splitlines():
        tag, *noted = json.loads(line)
        notes.setdefault(tag, []).append(noted)
    for noted in notes.values():
        noted.sort(key=json.dumps)
    return {name: {**end, "notes": notes[name]} for name, end in ends.items()}


def say(what):
    print(f"{time.monotonic():.0f} {what}", file=sys.stderr)


def call(signature):
    """Call; an error of the call is what comes of it."""
    try:
        return signature.apply_async()
    except Exception as error:
        return error


def wait(results):
    """Wait until all have ended, or nothing has been noted for long."""
    file = Path(os.environ["SITE_NOTES"])
    began = time.monotonic()
    size, since = -1, began
    while time.monotonic() < began + PATIENCE:
        time.sleep(0.5)
        now = file.stat().st_size if file.exists() else 0
        if now != size:
            size, since = now, time.monotonic()
            continue
        still = time.monotonic() - since
        if still > HANGS or (still > QUIET and all(map(has_ended, results.values()))):
            return


def has_ended(result):
    return isinstance(result, Exception) or result.ready()


def get(result):
    """Return what get() returns or raises, to one who waits no longer."""
    from compared.jobs import plain

    if isinstance(result, Exception):
        return ["not called", plain(result)]
    if not result.ready():
        return ["never ends"]
    try:
        return ["returned", plain(result.get(timeout=5))]
    except Exception as error:
        return ["raised", plain(error)]


def walk(result):
    """Return the states of a result, of those of a group, and of those before it."""
    from compared.jobs import plain

    if result is None or isinstance(result, Exception):
        return None
    if hasattr(result, "results"):
        seen = {"group": [walk(each) for each in result.results]}
    else:
        seen = {"state": result.state, "result": plain(result.result)}
    return {**seen, "before": walk(result.parent)} if result.parent is not None else seen


if __name__ == "__main__":
    found = observed(sys.argv[1:])
    json.dump(found, sys.stdout, indent=1)
