"""A block of code as an atomic step: `with run.atomic("name") as step:`.

Python has no context manager that skips its body (PEP 377 was rejected). So a trace function raises
in the frame of the caller, right behind the head of the `with` statement, and `__exit__` suppresses
that. A debugger's own trace function is put back before the next statement. If the body ran all the
same, its writes are rolled back, and InvalidStep is raised: it is never done twice.
"""

from __future__ import annotations

import dis
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from types import CodeType, FrameType, TracebackType
from typing import Any, Literal

from pgqueue.codec.arguments import dump_small
from pgqueue.codec.encoding import ANYTHING
from pgqueue.durable.trying import StepRun, lock_message
from pgqueue.engine.steps import StoredStep
from pgqueue.exceptions import InvalidResult, InvalidStep, LeaseLost

STORES = ("STORE_", "POP_TOP")
"""The instructions that end the head of a `with` statement."""


class _Skipped(BaseException):
    """Raised in place of a body that is not run."""


class AtomicBlock:
    """An atomic step that is a block: its body runs once, in the transaction that stores its end.

    Attributes:
        result: what the body sets; later runs find it here. Any value that a task's argument
            without a type hint accepts, up to 64 KiB as JSON.
    """

    def __init__(self, run: StepRun, name: str, step: StoredStep, *, is_done: bool) -> None:
        self._run = run
        self._name = name
        self._step = step
        self._is_done = is_done
        self._began = 0.0
        self._tracing: _Skipping | None = None
        self.result: Any = None
        if is_done and step.result is not None:
            self.result = ANYTHING.read(run.records.opened(step.result))

    @property
    def is_done(self) -> bool:
        """Whether an earlier run has done it, so that its body is skipped."""
        return self._is_done

    def __enter__(self) -> AtomicBlock:
        self._began = time.monotonic()
        self._transaction = self._run.records.transaction()
        self._transaction.__enter__()
        if not self._is_done:
            try:
                lock_message(self._run)
            except BaseException:
                self._transaction.__exit__(*sys.exc_info())
                raise
        self._inside = self._run.in_step(self._name)
        self._inside.__enter__()
        if self._is_done:
            # Last, and no function is called after it: while an asynchronous error is pending in
            # any thread, Python 3.11 never leaves the beginning of a function that is traced.
            self._tracing = _Skipping(sys._getframe(1))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[True] | None:
        self._inside.__exit__(kind, error, trace)
        if self._tracing is not None:
            self._tracing.end()
            self._transaction.__exit__(kind or _Skipped, error or _Skipped(), trace)
            if isinstance(error, _Skipped):
                return True
            raise InvalidStep(
                f"The body of the step {self._name!r} was done by an earlier run, and could not be "
                "skipped: another tool traces this thread. Use step(…, atomic=True)."
            ) from error
        try:
            if error is None:
                try:
                    self._store()
                except BaseException:
                    self._transaction.__exit__(*sys.exc_info())
                    raise
            self._transaction.__exit__(kind, error, trace)
        finally:
            self._run.run.lock = None
        return None

    def _store(self) -> None:
        what = f"the result of the step {self._name!r}"
        result = dump_small(what, ANYTHING, self.result, InvalidResult)
        took = timedelta(seconds=time.monotonic() - self._began)
        result = self._run.records.sealed(result)
        done = self._step._replace(state="done", result=result, tries=self._step.tries + 1)
        if self._run.records.store(done, took=took) is not done:
            raise LeaseLost(
                f"Another run has done the step {self._name!r} meanwhile: the writes of this one "
                "are rolled back."
            )


class _Skipping:
    """Raises `_Skipped` in a frame, behind the head of its `with` statement."""

    def __init__(self, frame: FrameType) -> None:
        self._frame = frame
        self._before = sys.gettrace()
        self._of_frame = (frame.f_trace, frame.f_trace_opcodes)
        self._ends = _ends_of_heads(frame.f_code)
        self._is_behind = False
        frame.f_trace = self._trace
        frame.f_trace_opcodes = True
        # Local trace functions are called only beside a global one; and Python 3.12 looks at
        # f_trace_opcodes only here.
        sys.settrace(self._before or _nothing)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self._is_behind:
            raise _Skipped
        if event == "opcode" and frame.f_lasti in self._ends:
            self._is_behind = True  # the name behind `as` is bound by this instruction
        return self._trace

    def end(self) -> None:
        """Put back the trace functions of others."""
        self._frame.f_trace, self._frame.f_trace_opcodes = self._of_frame
        # An error in a trace function has unset the global one.
        sys.settrace(self._before)


def _nothing(frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
    return None


def _ends_of_heads(code: CodeType) -> set[int]:
    return {each.offset for each in dis.get_instructions(code) if each.opname.startswith(STORES)}
