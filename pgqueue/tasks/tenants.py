"""The tenant of a message: its producer stores the name, and each run enters the tenant.

`PGQUEUE["TENANT"]` names the project's functions. Without it, none of the functions below does
anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from pgqueue.codec.arguments import UNPARSABLE, parse
from pgqueue.conf import settings
from pgqueue.database.django_connections import replace_connections
from pgqueue.engine.values import Claim, events_of
from pgqueue.exceptions import InvalidTenant, TenantUnavailable, UnreadablePayload
from pgqueue.values.error_words import shown, text_of
from pgqueue.values.escaping import logger_of
from pgqueue.values.names import KEY_LIMIT, as_text

logger = logger_of(__name__)

T = TypeVar("T")

TENANT = "tenant"
"""The key of a message's or an event's metadata that has the tenant's name."""
REQUIRED = ("current", "enter")

_NOWHERE: AbstractContextManager[None] = nullcontext()


def functions() -> Any:
    """Return the module or object with the project's functions. Only where they are configured.

    Raises:
        ImproperlyConfigured: `PGQUEUE["TENANT"]` is no import path, or lacks a function.
    """
    return _imported(settings().tenant or "")


@cache
def _imported(path: str) -> Any:
    named = f"PGQUEUE['TENANT'] = {shown(path)}"
    try:
        found = import_string(path) if _is_attribute(path) else import_module(path)
    except ImportError as error:
        raise ImproperlyConfigured(f"{named}: it cannot be imported: {error}") from error
    for name in REQUIRED:
        if not callable(getattr(found, name, None)):
            raise ImproperlyConfigured(f"{named}: it needs a function {name}().")
    return found


def _is_attribute(path: str) -> bool:
    """Return whether a path names an object in a module, and not a module."""
    module, _, name = path.rpartition(".")
    return bool(module) and hasattr(import_module(module), name)


def carried(given: str) -> str:
    """Return a JSON object's text of metadata, with the tenant that is entered here added.

    Metadata that name a tenant themselves, or None, stay unchanged.

    Raises:
        InvalidTenant: `current()`, or the metadata, returned no name.
    """
    if settings().tenant is None:
        return given
    metadata = json.loads(given)
    if TENANT in metadata:
        _checked(metadata[TENANT], "metadata['tenant']")
        return given
    name = current()
    return given if name is None else json.dumps({**metadata, TENANT: name})


def current() -> str | None:
    """Return the name of the tenant that is entered here; None: none is.

    Raises:
        InvalidTenant: the project's function returned something else.
    """
    return _checked(functions().current(), "current() returned")


def outside() -> dict[str, None]:
    """Return metadata of a message that does not get the tenant that is entered here.

    Raises:
        InvalidTenant: `current()` returned no name.
    """
    return {} if settings().tenant is None or current() is None else {TENANT: None}


class StoredKey(str):
    """A dedupe key as it is stored: all tenants share it, or it has the name of its tenant."""

    __slots__ = ()


def own_key(key: Any, metadata: Mapping[str, Any]) -> Any:
    """Return the dedupe key by which a message is stored: the name of its tenant stands in front.

    Without a tenant the key stays as it is, and so does a `StoredKey`. An invalid key stays, too:
    its caller refuses it.

    Args:
        metadata: the message's own. A tenant that they name is the message's, as in `carried`.

    Raises:
        InvalidTenant: `current()`, or the metadata, returned no name.
    """
    if isinstance(key, StoredKey):
        return str(key)
    if settings().tenant is None or not key or not isinstance(key, str):
        return key
    named = metadata[TENANT] if TENANT in metadata else current()
    name = _checked(named, "metadata['tenant']")
    return key if name is None else f"{name}:{key}"


def every() -> list[str]:
    """Return the names of all tenants, without repetitions.

    Raises:
        InvalidTenant: the project has no function `all()`, or it returned something else.
    """
    if settings().tenant is None:
        raise InvalidTenant("each_tenant needs PGQUEUE['TENANT'], with a function all().")
    names = getattr(functions(), "all", None)
    if not callable(names):
        raise InvalidTenant(f"{settings().tenant} needs a function all(), for each_tenant.")
    given = names()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidTenant(f"all() returned {shown(given)}: it must return names.")
    named = [_checked(each, "all() has") for each in given]
    if None in named:
        raise InvalidTenant("all() has None: each tenant needs a name.")
    return [each for each in dict.fromkeys(named) if each is not None]


def _checked(name: Any, what: str) -> str | None:
    if name is None:
        return None
    try:
        checked = as_text(name, KEY_LIMIT)
    except (TypeError, ValueError) as error:
        raise InvalidTenant(f"{what} {shown(name)} as a tenant's name: {error}") from error
    if not checked:
        raise InvalidTenant(f"{what} '' as a tenant's name: return None where there is no tenant.")
    return checked


def may_have(claim: Claim) -> bool:
    """Return whether the run of a message may enter a tenant."""
    return settings().tenant is not None and (
        b'"tenant"' in claim.metadata or b'"subscription"' in claim.metadata
    )


def counted_for() -> Callable[[Claim], str] | None:
    """Return the function by which runs are counted by tenant; None: they are not."""
    options = settings()
    return None if options.tenant is None or not options.tenant_metrics else _counted_tenant


def _counted_tenant(claim: Claim) -> str:
    try:
        return tenant_of(claim) or ""
    except (InvalidTenant, UnreadablePayload):
        return ""


def tenant_of(claim: Claim) -> str | None:
    """Return the tenant of a message; None: it has none.

    A message of a subscription has the tenant of its events, if all of them have the same.

    Raises:
        InvalidTenant: the metadata have something else than a name.
        UnreadablePayload: Python can't parse the metadata or the events, for example a number with
            5,000 digits.
    """
    if not may_have(claim):
        return None
    metadata = parse(f"The metadata of message {claim.id}", claim.metadata)
    if TENANT in metadata:
        return _checked(metadata[TENANT], f"message {claim.id} has")
    try:
        events = events_of(claim)
    except UNPARSABLE as error:
        raise UnreadablePayload(f"The events of message {claim.id}: {error}") from error
    return shared(each.get("metadata") for each in events)


def shared(metadata: Iterable[Any]) -> str | None:
    """Return the tenant that all these metadata of events name; None: they name no single one.

    Raises:
        InvalidTenant: an event has something else than a name.
    """
    named = {
        _checked(each.get(TENANT), "an event has") if isinstance(each, Mapping) else None
        for each in metadata
    }
    return named.pop() if len(named) == 1 else None


def around(claim: Claim) -> AbstractContextManager[None]:
    """Return the context in which a message's task runs: in its tenant, if it has one.

    Raises:
        InvalidTenant, UnreadablePayload: as of `tenant_of`.
    """
    return _NOWHERE if settings().tenant is None else entered(tenant_of(claim))


def around_stored(id: int, metadata: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Return the context in which a stored message is read: in the tenant of its metadata.

    Raises:
        InvalidTenant: the metadata have something else than a name.
    """
    if settings().tenant is None:
        return _NOWHERE
    return entered(_checked(metadata.get(TENANT), f"message {id} has"))


def around_events(metadata: Iterable[Any]) -> AbstractContextManager[None]:
    """Return the context in which a handler of events runs, by the metadata of each event.

    Raises:
        InvalidTenant: an event has something else than a name.
    """
    return _NOWHERE if settings().tenant is None else entered(shared(metadata))


def entered(name: str | None) -> AbstractContextManager[None]:
    """Return a context manager that enters a tenant; None: it does nothing.

    Entering it raises TenantUnavailable if the project's `enter()` fails. An error of its exit is
    logged, and this thread's connections are replaced: the next run must not be in this tenant.
    """
    return _NOWHERE if name is None else _Entered(name)


class _Entered:
    __slots__ = ("_manager", "_name")

    _manager: AbstractContextManager[Any]

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        try:
            self._manager = functions().enter(self._name)
            self._manager.__enter__()
        except Exception as error:
            raise TenantUnavailable(
                f"The tenant {shown(self._name)} cannot be entered: "
                f"{type(error).__name__}: {text_of(error.__str__)}"
            ) from error

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            self._manager.__exit__(kind, error, trace)
        except BaseException as failed:
            if failed is not error:  # a generator's context manager raises it again
                logger.warning("The tenant %s cannot be left", self._name, exc_info=failed)
                replace_connections()


def call_inside(claim: Claim, function: Callable[..., T], /, *args: Any) -> T:
    """Call a hook of the project in a message's tenant, or outside of it if entering fails.

    A hook for failures must also hear of a message whose tenant is gone.
    """
    if settings().tenant is None:
        return function(*args)
    with ExitStack() as stack:
        with suppress(InvalidTenant, TenantUnavailable, UnreadablePayload):
            stack.enter_context(around(claim))
        return function(*args)
