"""The visitors of pages that update themselves, and their permission to see the page."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from django.conf import settings as django_settings
from django.contrib.auth import SESSION_KEY, get_user, get_user_model
from django.http import HttpRequest


class Visitor:
    """The user of a request, whose permission is checked again long after the answer.

    Args:
        request: the request for the page.
        may_see: the function that returns whether the user of a request may see the page.
    """

    def __init__(self, request: HttpRequest, may_see: Callable[[HttpRequest], bool]) -> None:
        session: Any = getattr(request, "session", {})
        self._session_key = session.session_key if SESSION_KEY in session else None
        self._user_pk: Any = request.user.pk
        self._may_see = may_see

    def still_may_see(self) -> bool:
        """Return whether the stored session, user and permissions still allow the page.

        Raises:
            django.db.Error: the database refuses the statement, or is unreachable.
        """
        request = HttpRequest()
        user = self._user_of(request)
        if user is None or user.pk != self._user_pk:
            return False
        request.user = user
        return self._may_see(request)

    def _user_of(self, request: HttpRequest) -> Any:
        if self._session_key is None:
            # Another middleware has identified the user, for example from a header.
            return get_user_model()._default_manager.filter(pk=self._user_pk).first()
        store = import_module(django_settings.SESSION_ENGINE).SessionStore
        request.session = store(self._session_key)
        return get_user(request)
