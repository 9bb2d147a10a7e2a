"""Start a project's worker, play it, and print what came of it: python drive.py PROJECT COMMAND…"""

import importlib
import json
import os
import subprocess
import sys

import django

if __name__ == "__main__":
    project, *command = sys.argv[1:]
    os.environ["DJANGO_SETTINGS_MODULE"] = f"{project}.settings"
    django.setup()
    play = importlib.import_module(f"{project}.play")
    worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sys.stderr)
    try:
        found = play.play()
    finally:
        worker.terminate()
        try:
            worker.wait(20)
        except subprocess.TimeoutExpired:
            worker.kill()
    print(json.dumps(found))
