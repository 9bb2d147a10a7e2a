from django.apps import AppConfig


class PGQueueConfig(AppConfig):
    name = "pgqueue"
    label = "pgqueue"
    verbose_name = "Queue"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from pgqueue import checks  # noqa: F401
