import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "proj.settings")

app = Celery("proj")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@app.task(bind=True, name="debug")
def debug_task(self, *args, **kwargs):
    request = self.request
    return [request.task, list(request.args), request.kwargs, request.retries, request.is_eager]
