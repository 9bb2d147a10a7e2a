from contextlib import suppress

from django.apps import AppConfig
from django.conf import settings
from django.utils.module_loading import import_string


class PGQueueConfig(AppConfig):
    name = "pgqueue"
    label = "pgqueue"
    verbose_name = "Queue"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from pgqueue import checks  # noqa: F401

        # A task may be declared on another backend, and enqueued on ours: workers must know it.
        for backend in getattr(settings, "TASKS", {}).values():
            with suppress(ImportError):  # Django says it better
                import_string(backend.get("BACKEND", ""))
