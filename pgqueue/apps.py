from contextlib import suppress

from django.apps import AppConfig
from django.conf import settings
from django.db.backends.signals import connection_created
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _


class PGQueueConfig(AppConfig):
    name = "pgqueue"
    label = "pgqueue"
    verbose_name = _("Queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from pgqueue import checks, durable  # noqa: F401
        from pgqueue.database.connections import tell_iso
        from pgqueue.database_router import install
        from pgqueue.events.acting import tell_triggers

        connection_created.connect(tell_iso)
        connection_created.connect(tell_triggers)
        install()

        # A task may be declared on another backend, and enqueued on ours: workers must know it.
        for backend in getattr(settings, "TASKS", {}).values():
            with suppress(ImportError):  # Django says it better
                import_string(backend.get("BACKEND", ""))
