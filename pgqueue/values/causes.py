"""Find out what caused an error."""

from __future__ import annotations


def is_caused_by(error: BaseException | None, *kinds: type[BaseException]) -> bool:
    """Return whether the error, its cause or its context has a given type."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, kinds):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
