"""Model instances as arguments of tasks."""

from typing import Any

import pytest
from django.test.utils import isolate_apps
from django.utils.functional import SimpleLazyObject

from pgqueue.exceptions import InvalidArgument
from tests.codec.test_arguments import sent


class TestModels:
    def test_that_are_not_saved_are_refused(self):
        from django.contrib.auth.models import User

        for user in (User(), User(pk=5)):
            with pytest.raises(InvalidArgument, match="User that is not saved: save it first"):
                sent(User, user)

    def test_need_the_hint(self):
        from django.contrib.auth.models import AbstractUser, User
        from django.db.models import Model

        for hint in (Any, int, Model, AbstractUser):
            with pytest.raises(InvalidArgument, match=r"auth.*User, which needs that class"):
                sent(hint, saved(User(pk=5)))

    def test_are_their_primary_key(self):
        from django.contrib.auth.models import User

        assert sent(User, saved(User(pk=5))) == 5
        assert sent(list[User], [saved(User(pk=5))]) == [5]
        assert sent(User | int, 5) == 5
        assert sent(User, 5) == {"@": "int", "value": 5}

    def test_without_rows_are_no_hint(self):
        from django.contrib.auth.models import AbstractUser

        assert sent(AbstractUser, 5) == 5

    def test_may_be_lazy(self):
        from django.contrib.auth.models import User

        assert sent(User, SimpleLazyObject(lambda: saved(User(pk=5)))) == 5

    @isolate_apps("django.contrib.auth")
    def test_of_a_proxy_are_refused(self):
        from django.contrib.auth.models import User

        class Proxy(User):
            class Meta:
                proxy = True
                app_label = "auth"

        with pytest.raises(InvalidArgument, match="Proxy, which needs that class"):
            sent(User, saved(Proxy(pk=5)))


def saved(instance):
    instance._state.adding = False
    return instance
