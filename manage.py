#!/usr/bin/env python
"""Run Django's commands; without DATABASE_URL, on an embedded PostgreSQL."""

import os
import sys
from pathlib import Path


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    if "DATABASE_URL" not in os.environ:
        from pgqueue import embedded

        embedded.hold(project=Path(__file__).parent)

    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
