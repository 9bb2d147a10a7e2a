"""Tasks as a Celery project has them."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.contrib.auth.models import Group

from pgqueue.compat.celery import Celery, Task, current_task, group, shared_task, signature
from pgqueue.compat.celery.exceptions import (
    Ignore,
    Reject,
    SoftTimeLimitExceeded,
    TimeLimitExceeded,
)
from pgqueue.compat.celery.schedules import schedstate, schedule
from pgqueue.compat.celery.utils.log import get_task_logger
from pgqueue.tasks.current import running
from tests.class_jobs import Model, Tuple

logger = get_task_logger(__name__)

app = Celery("shop", set_as_current=False)
app.config_from_object("django.conf:settings", namespace="CELERY")
SEEN: list[Any] = []
"""What tasks and their handlers leave behind, where the test's process runs them."""


class TimelineAway(Exception):
    """The service is away."""


class PageMissing(Exception):
    """There is no such page."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__(f"{url}: {status}")
        self.status = status


class Unprintable(Exception):
    """Its text needs what its __init__ sets."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where

    def __str__(self) -> str:
        return f"at {self.where}"


@shared_task
def add(x: Any, y: Any) -> Any:
    """Add."""
    return x + y


@app.task
def create_group(name: str) -> int:
    return int(Group.objects.create(name=name).pk)


@app.task
def find_group(id: int) -> Group:
    return Group.objects.get(pk=id)


@app.task(name="sum-of-two-numbers")
def explicitly_named(x: int, y: int) -> int:
    return x + y


def doubled(function: Any) -> Any:
    from functools import wraps

    @wraps(function)
    def call(*args: Any) -> Any:
        return 2 * function(*args)

    return call


@app.task
@doubled
@doubled
def four_times(x: int) -> int:
    return x


@app.task(bind=True)
def dump_context(self: Any, x: int, y: int = 0) -> dict[str, Any]:
    logger.info("Adding %s + %s", x, y)
    request = self.request
    told = {name: getattr(request, name) for name in (
        "id", "task", "args", "kwargs", "retries", "is_eager", "called_directly", "headers",
        "delivery_info", "correlation_id", "time_limit", "soft_time_limit", "eta", "root_id",
    )}  # fmt: skip
    return {**told, "current": current_task.name if current_task else None}


@app.task(bind=True, default_retry_delay=30 * 60)
def retry_later(self: Any, delay: float | None = None) -> None:
    try:
        raise TimelineAway("not now")
    except TimelineAway as error:
        raise self.retry(exc=error, countdown=delay) from error


@app.task(bind=True)
def retry_at(self: Any, eta: str, countdown: float) -> None:
    raise self.retry(eta=eta, countdown=countdown)


@app.task(bind=True, max_retries=2)
def fetch(self: Any, succeeds_at: int) -> int:
    if self.request.retries < succeeds_at:
        raise self.retry(countdown=0)
    return int(self.request.retries)


@app.task(bind=True, max_retries=1)
def fetch_more_often(self: Any, succeeds_at: int) -> int:
    if self.request.retries < succeeds_at:
        raise self.retry(exc=TimelineAway("away"), countdown=0, max_retries=4)
    return int(self.request.retries)


@app.task
def retried_from_outside() -> None:
    try:
        raise TimelineAway("away")
    except TimelineAway as error:
        raise retried_from_outside.retry(exc=error, max_retries=5, countdown=0) from error


@app.task(autoretry_for=(TimelineAway,), retry_kwargs={"max_retries": 2, "countdown": 0})
def refresh_timeline(user: str) -> str:
    SEEN.append(user)
    if SEEN.count(user) < 3 or user == "nobody":
        raise TimelineAway(user)
    return f"timeline of {user}"


@app.task(
    autoretry_for=(Exception,),
    dont_autoretry_for=(KeyError,),
    retry_backoff=3,
    retry_backoff_max=20,
    retry_jitter=False,
    max_retries=None,
)
def backing_off(kind: str) -> None:
    raise {"KeyError": KeyError, "ValueError": ValueError}[kind](kind)


@app.task(bind=True, max_retries=None)
def asking_again(self: Any) -> None:
    raise self.retry(exc=ValueError("the service is away"))


@app.task
def fail(message: str) -> None:
    raise ValueError(message)


@app.task
def fail_untyped(message):  # type: ignore[no-untyped-def]
    raise ValueError(message)


@app.task
def miss_page() -> None:
    raise PageMissing("/", 404)


@app.task
def fail_unprintably() -> None:
    raise Unprintable("home")


@app.task(soft_time_limit=0.05, time_limit=10)
def clean_up_at_the_soft_limit() -> str:
    try:
        while True:
            time.sleep(0.01)
    except SoftTimeLimitExceeded:
        return "cleaned up"


@app.task(bind=True, soft_time_limit=0.05)
async def clean_up_at_length(self: Any) -> None:
    """Go on after the soft limit; note whether the lease is given up."""
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(60)
    await asyncio.sleep(0.2)
    SEEN.append(running.get().run.overdue)  # type: ignore[union-attr]


@app.task(time_limit=0.05, autoretry_for=(Exception,))
def run_over_the_hard_limit() -> None:
    while True:
        time.sleep(0.01)


@app.task(soft_time_limit=0.05, time_limit=0.2)
def ignore_the_soft_limit() -> str:
    limits = []
    while True:
        try:
            while True:
                time.sleep(0.01)
        except (SoftTimeLimitExceeded, TimeLimitExceeded) as error:
            limits.append(type(error).__name__)
            if len(limits) == 2:
                return " ".join(limits)


@app.task(bind=True)
def upload_files(self: Any, filenames: list[str]) -> str:
    for number, _ in enumerate(filenames):
        if not self.request.called_directly:
            self.update_state(state="PROGRESS", meta={"current": number, "total": len(filenames)})
        SEEN.append(self.AsyncResult(self.request.id).state)
        SEEN.append(self.AsyncResult(self.request.id).info)
    return "uploaded"


@app.task(bind=True)
def some_task(self: Any) -> None:
    raise Ignore


@app.task(bind=True, acks_late=True)
def render_scene(self: Any, path: str) -> None:
    try:
        raise MemoryError(path)
    except MemoryError as error:
        raise Reject(error, requeue=False) from error


@app.task(bind=True, acks_late=True)
def requeues(self: Any) -> str:
    if not self.request.delivery_info["redelivered"]:
        raise Reject("no reason", requeue=True)
    return "received two times"


@app.task(bind=True)
def requeue_once(self: Any) -> list[int]:
    SEEN.append(self.request.retries)
    if len(SEEN) == 1:
        raise Reject("not yet", requeue=True)
    return SEEN


class NoisyTask(Task):
    """Handlers, as the guide has them."""

    def before_start(self, task_id: Any, args: Any, kwargs: Any) -> None:
        SEEN.append(("before_start", args, kwargs))

    def on_success(self, retval: Any, task_id: Any, args: Any, kwargs: Any) -> None:
        SEEN.append(("on_success", retval, args, kwargs))

    def on_failure(self, exc: Any, task_id: Any, args: Any, kwargs: Any, einfo: Any) -> None:
        SEEN.append(("on_failure", repr(exc), "Traceback" in str(einfo)))

    def on_retry(self, exc: Any, task_id: Any, args: Any, kwargs: Any, einfo: Any) -> None:
        SEEN.append(("on_retry", repr(exc), task_id == self.request.id))

    def after_return(
        self, status: str, retval: Any, task_id: Any, args: Any, kwargs: Any, einfo: Any
    ) -> None:
        SEEN.append(("after_return", status))


@app.task(base=NoisyTask)
def noisy_add(x: int, y: int) -> int:
    return x + y


@app.task(base=NoisyTask)
async def noisy_add_async(x: int, y: int) -> int:
    return x + y


@app.task(base=NoisyTask, bind=True, max_retries=1)
def noisy_fail(self: Any) -> None:
    raise self.retry(exc=KeyError("key"), countdown=0)


@app.task(base=NoisyTask)
def noisy_reject() -> None:
    raise Reject("no", requeue=False)


class DatabaseTask(Task):
    """A base with a resource of its process."""

    _db: list[int] | None = None

    @property
    def db(self) -> list[int]:
        if self._db is None:
            self._db = [1, 2, 3]
        return self._db


@app.task(base=DatabaseTask, bind=True)
def process_rows(self: Any) -> int:
    return sum(self.db)


class Counting(Task):
    """A __call__ of its own, which surrounds each run."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        SEEN.append("called")
        return super().__call__(*args, **kwargs)


@app.task(base=Counting, bind=True)
def counted(self: Any, x: int) -> int:
    return x


@app.task(base=Counting)
def counted_unbound(x: int) -> int:
    return x


class BaseTaskWithRetry(Task):
    autoretry_for = (TypeError,)
    max_retries = 5
    retry_backoff = True
    retry_backoff_max = 700
    retry_jitter = False


@app.task(base=BaseTaskWithRetry)
def by_base() -> None:
    raise TypeError("wrong")


class NaiveAuthenticateServer(Task):
    """A task of a class."""

    def __init__(self) -> None:
        self.users = {"george": "password"}

    def run(self, username: str, password: str) -> bool:
        return self.users.get(username) == password


authenticate = app.register_task(NaiveAuthenticateServer())


@app.task
def limited(number: int) -> int:
    return number


@app.task(ignore_result=True)
def mytask(x: int, y: int) -> int:
    return x + y


@shared_task(queue="mail", priority=7, expires=60)
def routed(x: int) -> int:
    return x


@shared_task
async def double(number: int) -> int:
    return 2 * number


@shared_task
def count_lazily(number: int) -> Any:
    return (each for each in range(number))


@shared_task
async def ignore_async() -> None:
    raise Ignore("not worth it")


@shared_task
def take_classes(given: Model, point: Tuple, text: str) -> Model:
    SEEN.append((given, point, text))
    return given


@shared_task(bind=True)
def wait_for_another(self: Any) -> None:
    add.delay(1, 2).get(timeout=1)


@shared_task(bind=True)
def change_arguments(self: Any, x: int) -> None:
    raise self.retry(args=(x + 1,))


@shared_task(bind=True, track_started=True)
def look_at_oneself(self: Any) -> str:
    return str(self.AsyncResult(self.request.id).state)


@shared_task(track_started=True)
async def nap(seconds: float) -> None:
    await asyncio.sleep(seconds)


@shared_task(redact=["card"])
def charge(account: str, card: str) -> None: ...


@shared_task
def mul(x: Any, y: Any) -> Any:
    return x * y


@shared_task
def tsum(numbers: list[Any]) -> Any:
    """Sum up."""
    return sum(numbers)


@shared_task(ignore_result=True)
def hush(x: Any) -> Any:
    return x


@shared_task
def note(*args: Any, **kwargs: Any) -> None:
    SEEN.append((*args, kwargs) if kwargs else args)


@shared_task
def log_error(request: Any, exc: Any, traceback: Any) -> None:
    """An errback, as the guide has it."""
    SEEN.append((request.task, request.args, repr(exc), "Traceback" in traceback))


@shared_task
def log_id(request: Any, exc: Any, traceback: Any) -> None:
    SEEN.append(request.id)


@shared_task
def note_id_with_a_tag(task_id: str, tag: str) -> None:
    SEEN.append(task_id)


@app.task(bind=True, max_retries=2)
def retry_with_its_arguments(self: Any, number: int) -> int:
    if not self.request.retries:
        raise self.retry(args=self.request.args, kwargs=self.request.kwargs, countdown=0)
    return number


@app.task
def raise_of(name: str) -> None:
    """Raise what Python raises in such a case."""
    if name == "FileNotFoundError":
        open("/there/is/none")  # noqa: SIM115
    raise {
        "ConnectionResetError": ConnectionResetError(104, "Connection reset by peer"),
        "TimeoutError": TimeoutError("timed out"),
        "UnicodeDecodeError": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        "SyntaxError": SyntaxError("invalid"),
        "PageRefused": PageRefused("/", 403),
        "ExceptionGroup": ExceptionGroup("several", [ValueError("one")]),
    }[name]


class PageRefused(ConnectionError):
    """An OSError of the project's own."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__(url, status)
        self.status = status


@shared_task
def note_id(task_id: str) -> None:
    """An errback that takes the id alone: it is a message of its own."""
    SEEN.append(task_id)


@shared_task(bind=True)
def note_group(self: Any, x: Any) -> Any:
    return self.request.group


@shared_task
def spread(numbers: list[int], callback: Any) -> Any:
    """Call a signature that came as an argument, for each of many."""
    callback = signature(callback)
    return group(callback.clone([number]) for number in numbers)().as_list()


@shared_task(bind=True)
def replace_by(self: Any, sig: Any) -> Any:
    """Have what is given take the place of this run."""
    return self.replace(signature(sig))


@shared_task(bind=True, max_retries=1)
def replace_the_second_time(self: Any, sig: Any) -> Any:
    if not self.request.retries:
        raise self.retry(countdown=0)
    return self.replace(signature(sig))


STOPPING = threading.Event()


@shared_task
def end_as_the_worker_stops() -> bool:
    """Have the worker stop, and end once that is told."""
    SEEN[0].stop()
    return STOPPING.wait(20)


@shared_task(bind=True)
def publish_another(self: Any) -> str:
    mul.delay(2, 3)
    return str(self.request.id)


@shared_task
async def add_async(x: int, y: int) -> int:
    return x + y


@shared_task(autoretry_for=(Exception,), default_retry_delay=0)
def patient_sum(numbers: list[Any]) -> Any:
    return sum(numbers)


@shared_task(base=NoisyTask)
def noisy_sum(numbers: list[Any]) -> Any:
    return sum(numbers)


@shared_task(base=NoisyTask, bind=True)
def noisy_replace(self: Any, sig: Any) -> Any:
    return self.replace(signature(sig))


RETURNED: dict[str, Any] = {}
"""What `give` returns."""


@shared_task(autoretry_for=(Exception,), default_retry_delay=0)
def give(name: str) -> Any:
    if current_task.request.is_eager:
        SEEN.append(name)
    return RETURNED[name]


@dataclass
class Order:
    day: date


@shared_task
def take_order(order: Order, prices: dict[str, Any]) -> None:
    SEEN.append((order, prices))


@shared_task(bind=True)
def note_state(self: Any, meta: Any) -> None:
    self.update_state(state="PROGRESS", meta=meta)
    found = self.AsyncResult(self.request.id)
    SEEN.append((found.state, found.info))


@shared_task
def call_another(numbers: list[Any]) -> Any:
    """Return the result of another task, or of a group."""
    if isinstance(numbers[0], list):
        return group(add.s(*each) for each in numbers)()
    return add.delay(*numbers)


@shared_task(typing=False)
def unchecked(x: int) -> int:
    return x


class Tenanted(Task):
    """Adds a header to what its tasks store, as projects have it."""

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        SEEN.append(self.name)
        headers = {**options.pop("headers", {}), "tenant": "acme"}
        return super().apply_async(args, kwargs, headers=headers, **options)


class OddMinutes(schedule):
    """A schedule that decides by itself when it is due."""

    def __init__(self) -> None:
        super().__init__(60)

    def is_due(self, last_run_at: datetime) -> schedstate:
        return schedstate(is_due=bool(self.now().minute % 2), next=60)


class Registered(Task):
    """Notes what was stored, as projects do that keep rows of their own."""

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        result = super().apply_async(args, kwargs, **options)
        SEEN.append(result.id)
        return result


class NeverStored(Task):
    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        return None


@shared_task(base=Registered, bind=True)
def registered(self: Any) -> Any:
    return self.request.id


@shared_task(base=NeverStored)
def never_stored() -> None: ...


class StoredTwice(Task):
    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        super().apply_async(("audit",), **options)
        return super().apply_async(args, kwargs, **options)


@shared_task(base=StoredTwice)
def stored_twice(what: str) -> None: ...


@shared_task(base=Tenanted, bind=True)
def tenant_of(self: Any) -> Any:
    return self.request.tenant, self.request.get("tenant"), self.request.get("colour", "blue")


@shared_task(bind=True)
def expiry(self: Any) -> Any:
    return self.request.expires


@shared_task(bind=True)
def retries_of(self: Any) -> int:
    return int(self.request.retries)


@shared_task(bind=True)
def note_a_tenant(self: Any, tenant: str) -> Any:
    before = self.request.get("tenant")
    self.request.tenant = self.request.kwargs["tenant"] = tenant
    return before, self.request.tenant, self.request.kwargs


@shared_task(bind=True)
async def note_a_tenant_async(self: Any, tenant: str) -> Any:
    before = self.request.get("tenant")
    self.request.tenant = tenant
    return before, self.request.tenant


@shared_task(base=Tenanted)
def note_id_tenanted(task_id: str) -> None:
    """An errback that is a message of its own."""


@shared_task(bind=True)
def stop_the_chain(self: Any, name: str) -> None:
    setattr(self.request, name, None)


@shared_task(bind=True)
def describe_request(self: Any, x: int, y: int = 0) -> dict[str, Any]:
    names = ("argsrepr", "kwargsrepr", "children", "group_index", "ignore_result", "chain")
    return {name: getattr(self.request, name) for name in names}


@shared_task(bind=True)
def note_and_ignore(self: Any, state: str, meta: Any) -> None:
    self.update_state(state=state, meta=meta)
    raise Ignore


@shared_task(throws=(KeyError,), autoretry_for=(TimelineAway,), max_retries=1)
def raises(kind: str) -> None:
    raise {"KeyError": KeyError, "ValueError": ValueError}[kind](kind)


@shared_task
def spam_filter(comment_id: int, remote_addr: str | None = None) -> bool:
    """The guide's example; groups are comments here."""
    spam_filter.get_logger().info("Running spam filter for comment %s", comment_id)
    comment = Group.objects.get(pk=comment_id)
    is_spam = "casino" in comment.name
    if is_spam:
        comment.name = f"spam from {remote_addr}"
        comment.save()
    return is_spam


@shared_task
def linger() -> bool:
    """Run until the test has looked."""
    return STOPPING.wait(20)
