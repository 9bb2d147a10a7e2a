"""Who has a page open that goes on by itself, and whether they still may see it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from django.conf import settings as django_settings
from django.contrib.auth import SESSION_KEY, get_user, get_user_model
from django.http import HttpRequest


class Visitor:
    """Whoever sent a request: asked about again, long after it was answered.

    Args:
        request: of the page.
        may_see: whether the user of a request may see it.
    """

    def __init__(self, request: HttpRequest, may_see: Callable[[HttpRequest], bool]) -> None:
        session: Any = getattr(request, "session", {})
        self._session_key = session.session_key if SESSION_KEY in session else None
        self._user_pk: Any = request.user.pk
        self._may_see = may_see

    def still_may_see(self) -> bool:
        """Look at the session, the user and the permissions, as they are stored now.

        Raises:
            django.db.Error: the database refused, or can't be reached.
        """
        request = HttpRequest()
        user = self._user_of(request)
        if user is None or user.pk != self._user_pk:
            return False
        request.user = user
        return self._may_see(request)

    def _user_of(self, request: HttpRequest) -> Any:
        if self._session_key is None:
            # Another middleware has found out who it is, from a header for example.
            return get_user_model()._default_manager.filter(pk=self._user_pk).first()
        store = import_module(django_settings.SESSION_ENGINE).SessionStore
        request.session = store(self._session_key)
        return get_user(request)
