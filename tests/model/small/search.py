"""Visit all states of a model in the order of their distance, and check each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)

Steps = Callable[[S], Iterable[tuple[str, S]]]


@dataclass(frozen=True)
class Visited(Generic[S]):
    """The result of a search.

    Attributes:
        states: how many states were visited.
        violated: the name of the violated invariant; "": none.
        trace: the transitions of a shortest history that violates it, each with its state.
    """

    states: int
    violated: str = ""
    trace: tuple[tuple[str, S], ...] = ()

    def __str__(self) -> str:
        lines = [name for name, _ in self.trace] + [str(state) for _, state in self.trace[-1:]]
        return "\n".join([f"{self.states} states; {self.violated or 'nothing violated'}", *lines])


def visit(
    first: S,
    steps: Steps[S],
    invariants: Mapping[str, Callable[[S], bool]],
    *,
    at_the_end: Mapping[str, Callable[[S], bool]],
    most: int = 5_000_000,
) -> Visited[S]:
    """Visit every state, until one violates an invariant.

    Args:
        steps: returns the transitions of a state, each with its name and the next state.
        invariants: hold in each state.
        at_the_end: hold in each state that has no transition to another one.
        most: states; a model with more of them is too large.

    Raises:
        ValueError: there are more states.
    """
    came_from: dict[S, tuple[str, S] | None] = {first: None}
    waiting = deque([first])
    while waiting:
        state = waiting.popleft()
        is_end = True
        for name, holds in invariants.items():
            if not holds(state):
                return Visited(len(came_from), name, tuple(_trace(came_from, state)))
        for name, following in steps(state):
            if following == state:
                continue
            is_end = False
            if following not in came_from:
                came_from[following] = (name, state)
                waiting.append(following)
        if len(came_from) > most:
            raise ValueError(f"The model has more than {most} states.")
        for name, holds in at_the_end.items() if is_end else ():
            if not holds(state):
                return Visited(len(came_from), name, tuple(_trace(came_from, state)))
    return Visited(len(came_from))


def _trace(came_from: Mapping[S, tuple[str, S] | None], last: S) -> Iterator[tuple[str, S]]:
    found: list[tuple[str, S]] = []
    state = last
    while (came := came_from[state]) is not None:
        name, before = came
        found.append((name, state))
        state = before
    return reversed(found)
