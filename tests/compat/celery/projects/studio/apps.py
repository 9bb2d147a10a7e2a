from celery import Celery
from celery.result import AsyncResult


class StudioApp(Celery):
    task_cls = "studio.base:StudioTask"
    result_cls = "studio.apps:StudioResult"
    _result_cls = None

    @property
    def Result(self):
        """A class of results that knows the app."""
        if self._result_cls is None:
            self._result_cls = self.subclass_with_self(
                StudioResult, name="Result", attribute="mine"
            )
        return self._result_cls

    def count_active(self):
        active = self.control.inspect(timeout=5).active() or {}
        return sum(len(each) for each in active.values())


class StudioResult(AsyncResult):
    @property
    def progress(self):
        return self.info.get("progress") if isinstance(self.info, dict) else None
