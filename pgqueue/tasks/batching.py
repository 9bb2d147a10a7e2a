"""Tasks with `batch`: one run of the function for many messages.

A message of such a task can also run alone, as a batch of one: its task's `func` is an adapter that
makes a list of the one call. So all code that runs a single message needs to know nothing of
batches. `worker.batch_runner` runs several messages at once.
"""

from __future__ import annotations

import inspect
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from inspect import Parameter, Signature
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin

from pgqueue.codec.hints import hints_of, signature_of
from pgqueue.engine.values import Claim
from pgqueue.exceptions import InvalidResult, InvalidTask
from pgqueue.tasks import definition
from pgqueue.tasks.batch_calls import BatchCall, BatchContext
from pgqueue.tasks.context import RunState, TaskContext
from pgqueue.tasks.declaration import OF_THE_FUNCTION
from pgqueue.tasks.definition import Task

P = ParamSpec("P")
T = TypeVar("T")

LISTS = (list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)
EXAMPLE = "def index(calls: list[BatchCall[int]]) -> None"

batched: dict[str, BatchTask[Any, Any]] = {}
"""The batch tasks that this process has imported, by their names, earlier ones included."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BatchTask(Task[P, T]):
    """A task whose function takes a list of calls. Each option is documented at `@task`.

    Attributes:
        func: calls the function with a list of one call.
        function: the function as it is declared.
    """

    function: Callable[..., Any]
    batch: int
    batch_wait: timedelta = timedelta()
    batch_by: str | None = None

    def __post_init__(self) -> None:
        if self.ordered and self.batch_by == "key":
            raise InvalidTask(
                f"{self.name}: ordered runs one message of a key at a time, so a batch_by='key' "
                "would always have one message. Leave one of them out."
            )
        super().__post_init__()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function with a list of one call, which has these arguments and no context.

        Returns:
            The result of the call; a coroutine, if the function is a coroutine function.

        Raises:
            InvalidArguments: the arguments do not fit.
            BaseException: the error that the function raises, or gives to `call.fail()`.
        """
        self.codec.check_fit(args, kwargs)
        return self.func(None, *args, **kwargs)

    def context(self, claim: Claim, run: RunState, database: str) -> TaskContext:
        """Return the context of a message of this task."""
        return BatchContext(self, claim, run, database)

    def results(self, returned: Any, count: int) -> Sequence[Any]:
        """Return the result of each call.

        Args:
            returned: the function's return value.
            count: the number of calls.

        Raises:
            InvalidResult: it is neither None nor a list with a result for each call.
        """
        return _results(self.function, returned, count)


def declare(function: Callable[..., Any], options: Mapping[str, Any]) -> BatchTask[Any, Any]:
    """Make a batch task of a function.

    Args:
        options: the checked options of `@task`.

    Raises:
        InvalidTask: the function does not take a list of calls, or two options do not fit.
    """
    if options.get("durable"):
        raise InvalidTask(
            f"{function.__qualname__}: a durable task stores the steps of one message, so it has "
            "no batch. Enqueue a batch task in a step."
        )
    if options.get("takes_context"):
        raise InvalidTask(
            f"{function.__qualname__}: a batch has no context of its own, so takes_context is "
            "invalid. Each call has one: call.context."
        )
    if options.get("logs"):
        raise InvalidTask(
            f"{function.__qualname__}: a line of a batch belongs to no single message, so logs is "
            "invalid."
        )
    given = {**options, "takes_context": True, "logs": None}
    task: BatchTask[Any, Any] = BatchTask(func=_of_one(function), function=function, **given)
    batched.update(dict.fromkeys(task.names, task))
    return task


definition.kinds["batch"] = declare


def _of_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes a list of one call, and calls `function` with it."""

    def run(context: TaskContext | None, /, *args: Any, **kwargs: Any) -> Any:
        call: BatchCall[...] = BatchCall(args, kwargs, context)
        return _result(function, call, function([call]))

    async def arun(context: TaskContext | None, /, *args: Any, **kwargs: Any) -> Any:
        call: BatchCall[...] = BatchCall(args, kwargs, context)
        return _result(function, call, await function([call]))

    adapter: Any = arun if inspect.iscoroutinefunction(function) else run
    for name in OF_THE_FUNCTION:
        setattr(adapter, name, getattr(function, name))
    adapter.__signature__, adapter.__annotations__ = _signature(function)
    return adapter  # type: ignore[no-any-return]


def _result(function: Callable[..., Any], call: BatchCall[...], returned: Any) -> Any:
    if call.error is not None:
        raise call.error
    return _results(function, returned, 1)[0]


def _results(function: Callable[..., Any], returned: Any, count: int) -> Sequence[Any]:
    if returned is None:
        return [None] * count
    if not isinstance(returned, list | tuple):
        raise InvalidResult(
            f"{function.__qualname__} returned a {type(returned).__name__}: a batch task returns "
            "None, or a list with a result for each call."
        )
    if len(returned) != count:
        raise InvalidResult(
            f"{function.__qualname__} returned {len(returned)} results for {count} calls: return "
            "None, or a result for each call, in their order."
        )
    return returned


def _signature(function: Callable[..., Any]) -> tuple[Signature, dict[str, Any]]:
    """Return the signature and the hints of one call, with the context as its first parameter.

    Raises:
        InvalidTask: the function does not take a list of calls.
    """
    parameters = list(signature_of(function).parameters.values())
    if len(parameters) != 1 or parameters[0].kind not in (
        Parameter.POSITIONAL_ONLY,
        Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise InvalidTask(
            f"{function.__qualname__}{signature_of(function)}: a batch task has one parameter, the "
            f"list of its calls: {EXAMPLE}."
        )
    hints = hints_of(function)
    given = _arguments(function, hints.get(parameters[0].name, Any))
    returned = _returned(function, hints.get("return", Any))
    first = Parameter("context", Parameter.POSITIONAL_ONLY)
    if given is None:
        others = [
            Parameter("args", Parameter.VAR_POSITIONAL),
            Parameter("kwargs", Parameter.VAR_KEYWORD),
        ]
        return Signature([first, *others]), {"return": returned}
    named = {f"arg{number}": hint for number, hint in enumerate(given, start=1)}
    others = [Parameter(name, Parameter.POSITIONAL_ONLY) for name in named]
    return Signature([first, *others]), {**named, "return": returned}


def _arguments(function: Callable[..., Any], hint: Any) -> Sequence[Any] | None:
    """Return the hints of a call's arguments; None: it may have any arguments."""
    if hint is Any or hint is list:
        return None
    item = next(iter(get_args(hint)), None)
    if get_origin(hint) not in LISTS or (get_origin(item) or item) is not BatchCall:
        raise InvalidTask(
            f"{function.__qualname__}: the hint of its parameter is {hint}, and a batch task takes "
            f"a list of BatchCall: {EXAMPLE}."
        )
    [given] = get_args(item) or [...]
    return None if given is ... else given


def _returned(function: Callable[..., Any], hint: Any) -> Any:
    """Return the hint of a call's result."""
    arms = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    lists = [each for each in arms if (get_origin(each) or each) in LISTS]
    if lists:
        return next(iter(get_args(lists[0])), Any)
    if hint in (Any, None, NoneType):
        return Any
    raise InvalidTask(
        f"{function.__qualname__}: the hint of its return value is {hint}, and a batch task "
        "returns None, or a list with a result for each call."
    )
