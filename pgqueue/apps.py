from importlib import import_module

from django.apps import AppConfig
from django.conf import settings


class PGQueueConfig(AppConfig):
    name = "pgqueue"
    label = "pgqueue"
    verbose_name = "Queue"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from pgqueue import checks  # noqa: F401

        # A task may be declared on another backend, and enqueued on ours.
        backends = getattr(settings, "TASKS", {}).values()
        if any(backend["BACKEND"].startswith("pgqueue.") for backend in backends):
            import_module("pgqueue.backend")
