"""The queue of a task's messages, from task_routes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from pgqueue.values.error_words import shown

TAKEN = ("queue", "priority")


def static(routes: Any, name: str) -> dict[str, Any]:
    """Return the route of a task by the dicts among the routes; an empty dict: none matches.

    Raises:
        ImproperlyConfigured: the routes are invalid.
    """
    for each in _each(routes):
        if isinstance(each, Mapping) and (found := _found(each, name)) is not None:
            return _checked(found, name)
    return {}


def routers(routes: Any) -> list[Callable[..., Any]]:
    """Return the functions among the routes. They are called for each message."""
    return [each for each in _each(routes) if callable(each)]


def routed(
    routes: Any, name: str, args: Any, kwargs: Any, options: Mapping[str, Any], task: Any
) -> dict[str, Any]:
    """Return the first route that matches this message; an empty dict: none matches."""
    for each in _each(routes):
        if callable(each):
            found = each(name, args, kwargs, dict(options), task=task)
        else:
            found = _found(each, name)
        if found is not None:
            return _checked(found, name)
    return {}


def _each(routes: Any) -> Iterator[Any]:
    if routes is None:
        return
    for each in routes if isinstance(routes, list | tuple) else [routes]:
        if isinstance(each, str):
            found = import_string(each.replace(":", "."))
            yield found().route_for_task if isinstance(found, type) else found
        elif isinstance(each, list | tuple):
            pairs: Any = [each] if isinstance(each[0], str | re.Pattern) else each
            yield dict(pairs)
        elif isinstance(each, Mapping) or callable(each):
            yield each
        else:
            raise ImproperlyConfigured(
                f"task_routes: {shown(each)} is neither a dict, a list of pairs nor a function."
            )


def _found(routes: Mapping[Any, Any], name: str) -> Any:
    if name in routes:
        return routes[name]
    for pattern, route in routes.items():
        if isinstance(pattern, re.Pattern):
            if pattern.match(name):
                return route
        elif ("*" in pattern or "?" in pattern) and fnmatchcase(name, pattern):
            return route
    return None


def _checked(route: Any, name: str) -> dict[str, Any]:
    if isinstance(route, str):
        return {"queue": route}
    if not isinstance(route, Mapping) or set(route) - set(TAKEN):
        raise ImproperlyConfigured(
            f"task_routes: {shown(route)} for {name}: a route has a queue and a priority. There "
            'are no exchanges: give {"queue": …} in the place of routing_key.'
        )
    return dict(route)
