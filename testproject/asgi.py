"""Serve the project: `python -m uvicorn testproject.asgi:application`."""

import os
from pathlib import Path

from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
if "DATABASE_URL" not in os.environ:
    from pgqueue import embedded

    embedded.hold(project=Path(__file__).resolve().parent.parent)

application = ASGIStaticFilesHandler(get_asgi_application())
