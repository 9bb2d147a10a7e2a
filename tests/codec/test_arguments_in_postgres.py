"""What the codec writes, sent through a jsonb column's type and back."""

import json
import math
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import Group, User, UserManager
from django.db import DataError, connection, models
from django.test.utils import isolate_apps
from hypothesis import given

from pgqueue.codec.arguments import Codec, InvalidArgument, UnreadablePayload
from tests.codec.test_arguments import (
    Color,
    Item,
    Size,
    any_hint,
    any_hint_but_of_keys,
    anything,
    codec_of,
    deepest,
    hint_and_value,
    same,
    thorough,
)

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


NUMBERS = [
    *(1e16, -1e16, 1e308, sys.float_info.max, sys.float_info.min, 5e-324, -5e-324),
    *(-0.0, 0.0, 1.0, 100.0, 9999999999999998.0, 1.7976931348623157e-300),
    *(2**53, -(2**63) - 1, 10**4299),
]


def through_jsonb(text: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::jsonb::text", [text])
        return str(cursor.fetchone()[0])


def selected(sql: str) -> str:
    """Return the payload that SQL makes."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT jsonb_build_object('args', jsonb_build_array({sql}))::text")
        return str(cursor.fetchone()[0])


def there_and_back(codec: Codec, *args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    return codec.decode(through_jsonb(codec.encode(args, kwargs)))


class TestValuesComeBack:
    @thorough
    @given(value=anything)
    def test_without_a_hint(self, value):
        args, kwargs = there_and_back(codec_of(Any), value)

        assert same(args, [value])
        assert kwargs == {}

    @thorough
    @given(pair=any_hint.flatmap(hint_and_value))
    def test_under_their_hint(self, pair):
        hint, value = pair
        codec = codec_of(hint)

        args, _ = there_and_back(codec, value)
        _, kwargs = there_and_back(codec, value=value)

        assert same(args, [value])
        assert same(kwargs, {"value": value})

    @thorough
    @given(hint=any_hint_but_of_keys, value=anything)
    def test_under_a_hint_that_they_do_not_match(self, hint, value):
        args, _ = there_and_back(codec_of(hint), value)

        assert same(args, [value])

    @thorough
    @given(pair=any_hint.flatmap(hint_and_value))
    def test_as_results(self, pair):
        hint, value = pair
        codec = codec_of(hint)

        assert same(codec.decode_result(through_jsonb(codec.encode_result(value))), value)

    @pytest.mark.parametrize("hint", [Any, float, int, Decimal, float | int, timedelta])
    def test_as_the_numbers_they_were(self, hint):
        codec = codec_of(hint)

        changed = [each for each in NUMBERS if not same(there_and_back(codec, each)[0], [each])]

        assert changed == []

    @pytest.mark.parametrize("text", ["NaN", "-Infinity", "sNaN7", "1E+5", "-0", "0E-9", "1E+9999"])
    @pytest.mark.parametrize("hint", [Any, Decimal, float])
    def test_as_the_decimals_they_were(self, hint, text):
        args, _ = there_and_back(codec_of(hint), Decimal(text))

        assert same(args, [Decimal(text)])

    @pytest.mark.parametrize(
        "text",
        ["\\u0000", "\\\\u0000", "\\ud800", "👍", "\x01\x1f\x7f", '"', "\ufffe\uffff", "@", ""],
    )
    def test_as_the_strings_they_were(self, text):
        for value in (text, [text], {text: text}):
            args, _ = there_and_back(codec_of(str), value)

            assert args == [value]

    def test_whatever_order_their_keys_are_put_in(self):
        value = {"longer": {"@": 1, "a": {2}}, "b": (1,), "@": {"value": 1, "@": "set"}}

        args, kwargs = there_and_back(codec_of(dict[str, Any]), value)

        assert same(args, [value])
        assert kwargs == {}

    def test_at_ten_megabytes(self):
        for text in ("x" * 10**7, "é" * (5 * 10**6)):
            args, _ = there_and_back(codec_of(str), text)

            assert args == [text]

    @pytest.mark.parametrize(
        "wrap",
        [lambda value: [value], lambda value: (value,), lambda value: {"a": value}],
        ids=["list", "tuple", "dict"],
    )
    def test_at_the_greatest_depth_that_is_accepted(self, wrap):
        text, _ = deepest(wrap)

        args, _ = codec_of(Any).decode(through_jsonb(text))

        assert type(args[0]) is type(wrap(1))


class TestPlainSQL:
    @pytest.mark.parametrize(
        ("hint", "sql", "value"),
        [
            (
                datetime,
                "'2030-01-02T03:04:05.5Z'::timestamptz",
                datetime(2030, 1, 2, 3, 4, 5, 500000, UTC),
            ),
            (datetime, "'2030-01-02'::timestamp", datetime(2030, 1, 2)),
            (date, "'2030-01-02'::date", date(2030, 1, 2)),
            (Decimal, "12345678901234567.8900::numeric", Decimal("12345678901234567.8900")),
            (Decimal, "5", Decimal(5)),
            (Decimal, "'1.50'", Decimal("1.50")),
            (float, "1", 1.0),
            (float, "1e300::float8", 1e300),
            (
                timedelta,
                "extract(epoch FROM interval '1 day 0.5 s')",
                timedelta(days=1, seconds=0.5),
            ),
            (UUID, f"'{UUID(int=7)}'::uuid", UUID(int=7)),
            (bytes, "encode('\\x00ff'::bytea, 'base64')", b"\x00\xff"),
            (set[date], "ARRAY['2030-01-02'::date]", {date(2030, 1, 2)}),
            (Color, "'red'", Color.RED),
            (Size, "2", Size.LARGE),
            (Item, """'{"sku": "a", "price": 1.10}'::jsonb""", Item("a", Decimal("1.10"))),
            (datetime | None, "NULL", None),
        ],
    )
    def test_sends_what_the_hint_says(self, hint, sql, value):
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL TimeZone = 'UTC'")

        args, _ = codec_of(hint).decode(selected(sql))

        assert same(args, [value])

    def test_reads_what_was_sent(self):
        payload = codec_of(datetime).encode((datetime(2030, 1, 2, tzinfo=UTC),), {})

        with connection.cursor() as cursor:
            cursor.execute("SELECT (%s::jsonb -> 'args' ->> 0)::timestamptz", [payload])
            assert cursor.fetchone() == (datetime(2030, 1, 2, tzinfo=UTC),)

    @pytest.mark.parametrize("sql", ["1e5000::numeric", "'infinity'::timestamptz"])
    def test_may_send_what_python_cannot_hold(self, sql):
        with pytest.raises(UnreadablePayload):
            codec_of(datetime).decode(selected(sql))


class TestWhatPostgresRefuses:
    """If these begin to pass, the codec could be less strict."""

    @pytest.mark.parametrize(
        "value", [math.nan, math.inf, "\x00", {"\x00": 1}, "\ud800", {"\udc00": 1}, ["a\udc00b"]]
    )
    def test_is_refused_before_it_is_sent(self, value):
        with pytest.raises(InvalidArgument):
            codec_of(Any).encode((value,), {})
        with pytest.raises(DataError), connection.cursor() as cursor:
            cursor.execute("SELECT %s::jsonb", [json.dumps(value)])


class TestModels:
    @pytest.fixture
    def user(self):
        return User.objects.create(username="ada")

    def test_come_back_from_the_database(self, user):
        other = User.objects.create(username="bob")

        args, _ = there_and_back(codec_of(User), user)
        many, _ = there_and_back(codec_of(dict[str, list[User]]), {"users": [user, other]})

        assert args == [user]
        assert args[0].username == "ada"
        assert many == [{"users": [user, other]}]

    def test_come_back_from_a_union(self, user):
        group = Group.objects.create(name="staff")
        codec = codec_of(User | Group | int | None)

        for value in (user, group, 5, None):
            assert there_and_back(codec, value)[0] == [value]

    def test_come_back_from_what_a_manager_hides(self, user, monkeypatch):
        monkeypatch.setattr(UserManager, "get_queryset", lambda self: User._base_manager.none())
        assert not User.objects.all()

        assert there_and_back(codec_of(User), user)[0] == [user]

    def test_come_back_as_results(self, user):
        codec = codec_of(User | None)

        assert codec.decode_result(through_jsonb(codec.encode_result(user))) == user

    def test_may_be_sent_by_sql_as_their_key(self, user):
        for sql in (f"{user.pk}", f"'{user.pk}'"):
            assert codec_of(User).decode(selected(sql)) == ([user], {})

    @isolate_apps("django.contrib.auth")
    def test_may_have_a_uuid_as_their_key(self):
        class Ticket(models.Model):  # noqa: DJ008
            id = models.UUIDField(primary_key=True, default=uuid4)

            class Meta:
                app_label = "auth"

        with connection.schema_editor() as editor:
            editor.create_model(Ticket)
        ticket = Ticket.objects.create()
        codec = codec_of(Ticket)

        assert codec.encode((ticket,), {}) == f'{{"args":["{ticket.pk}"],"kwargs":{{}}}}'
        assert there_and_back(codec, ticket)[0] == [ticket]
        assert codec.decode(selected(f"'{ticket.pk}'::uuid")) == ([ticket], {})
        with pytest.raises(UnreadablePayload, match="is not a valid UUID"):
            codec.decode(selected("'nonsense'"))

    @isolate_apps("django.contrib.auth")
    def test_may_have_a_key_of_several_columns(self):
        class Seat(models.Model):  # noqa: DJ008
            pk = models.CompositePrimaryKey("row", "booked_on")
            row = models.IntegerField()
            booked_on = models.DateField()

            class Meta:
                app_label = "auth"

        with connection.schema_editor() as editor:
            editor.create_model(Seat)
        seat = Seat.objects.create(row=1, booked_on=date(2030, 1, 2))

        for hint in (Seat, list[Seat] | Seat | int):
            assert there_and_back(codec_of(hint), seat)[0] == [seat]

    def test_whose_row_is_gone_are_told_as_django_does(self, user):
        payload = codec_of(User).encode((user,), {})
        user.delete()

        with pytest.raises(User.DoesNotExist):
            codec_of(User).decode(payload)

    def test_that_were_deleted_are_refused(self, user):
        user.delete()

        with pytest.raises(InvalidArgument, match="is not saved"):
            codec_of(User).encode((user,), {})

    @pytest.mark.parametrize(
        "plain", ['"ada"', '{"@": "django.contrib.auth.models.User", "value": []}']
    )
    def test_without_a_key_are_unreadable(self, plain):
        with pytest.raises(UnreadablePayload):
            codec_of(User).decode(f'{{"args": [{plain}]}}')
