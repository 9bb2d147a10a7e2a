"""The rows of one task: what they may be, and that they arrive as they are. Without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T
from pyspark.sql.pandas.types import is_variant, to_arrow_type

from pgqueue.codec.arguments import Codec
from pgqueue.exceptions import WriteConflict
from pgqueue.models import Message, Staged
from pgqueue.spark import InvalidColumn, InvalidOption, InvalidRow
from pgqueue.spark.source import BatchWriter
from pgqueue.spark.writeoptions import write_options
from pgqueue.spark.writing import Rows
from tests.factories import Connection

AWKWARD = ["", "a\nb", 'say "hi"', "a,b;c", "back\\slash\\.", "\\N", "naïve 🎉", "'", "\t", " x "]
MOMENT = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
TYPES = {
    **dict.fromkeys(("task", "channel", "key", "dedupe_key", "payload", "kwargs"), T.StringType()),
    **dict.fromkeys(("args", "metadata"), T.StringType()),
    **dict.fromkeys(("priority", "weight", "max_attempts"), T.IntegerType()),
    **dict.fromkeys(("run_at", "expires_at"), T.TimestampType()),
    "body": T.BinaryType(),
    "ordered": T.BooleanType(),
    "id": T.LongType(),
}
Write = Callable[..., None]


def schema(**types: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, each) for name, each in types.items()])


def rows(options: dict[str, str], **types: T.DataType) -> Rows:
    return Rows(write_options(options, is_stream=False), schema(**types))


def variants(*texts: str | None) -> pa.Array:
    """Return values of JSON as Spark passes a column of the type VARIANT."""
    values = [None if text is None else T.VariantVal.parseJson(text) for text in texts]
    kind = to_arrow_type(T.VariantType())
    return pa.array([each and T.VariantType().toInternal(each) for each in values], kind)


@pytest.fixture
def write(url: str, connection: Connection) -> Write:
    """Write columns as one task and the driver do; a column is a list, or an Arrow array."""

    def write(**columns: Any) -> None:
        options = {"url": url, "task": "tests.task"}
        if "task" in columns:
            del options["task"]
        arrays = {name: pa.array(each) for name, each in columns.items()}
        variants = {
            name
            for name, each in arrays.items()
            if pa.types.is_struct(each.type) and is_variant(each.type)
        }
        types = {name: T.VariantType() if name in variants else TYPES[name] for name in arrays}
        writing = rows(options, **types)
        batch = pa.record_batch(arrays)
        writing.commit([writing.stage([batch], partition=0)], version=None)

    return write


class TestAValue:
    def test_arrives_as_it_is(self, write: Write) -> None:
        texts = [*AWKWARD, None]
        write(
            key=texts,
            dedupe_key=[None if text is None else f"{n}{text}" for n, text in enumerate(texts)],
            body=[None if text is None else text.encode() + b"\x00\xff" for text in texts],
            priority=[n - 5 for n in range(10)] + [None],
            weight=[n + 2 for n in range(10)] + [None],
            run_at=[MOMENT] * 10 + [None],
        )

        stored = list(Message.objects.order_by("dedupe_key", "id"))
        assert {each.key for each in stored} == {*AWKWARD}
        assert len(stored) == 11
        by_key = {each.dedupe_key: each for each in stored}
        for n, text in enumerate(AWKWARD):
            each = by_key[f"{n}{text}"]
            assert (each.key, bytes(each.body or b"")) == (text, text.encode() + b"\x00\xff")
            assert (each.priority, each.run_at, each.state) == (n - 5, MOMENT, "scheduled")
            assert each.options == {"weight": n + 2}
        assert (by_key[None].body, by_key[None].priority, by_key[None].options) == (None, 0, None)

    def test_in_json_text_is_that_json(self, write: Write) -> None:
        write(args=["[1]", None], kwargs=[' {"a": [true, null]}', None])

        assert [each.payload for each in Message.objects.order_by("pk")] == [
            {"args": [1], "kwargs": {"a": [True, None]}},
            {"args": [], "kwargs": {}},
        ]

    def test_of_sparks_own_types_comes_back_as_such_to_the_task(
        self, url: str, connection: Connection
    ) -> None:
        inner = T.StructType().add("n", T.LongType()).add("text", T.StringType())
        given = {
            "amount": Decimal("12.50"),
            "at": MOMENT,
            "rows": [{"n": 2**53 + 1, "text": "@"}],
            "tags": {"@": "x"},
        }
        types = (
            T.StructType()
            .add("amount", T.DecimalType(10, 2))
            .add("at", T.TimestampType())
            .add("rows", T.ArrayType(inner))
            .add("tags", T.MapType(T.StringType(), T.StringType()))
        )
        arrow = pa.struct(
            {
                "amount": pa.decimal128(10, 2),
                "at": pa.timestamp("us", "UTC"),
                "rows": pa.list_(pa.struct({"n": pa.int64(), "text": pa.string()})),
                "tags": pa.map_(pa.string(), pa.string()),
            }
        )
        writing = rows({"url": url, "task": "tests.task"}, kwargs=types)
        row = {**given, "tags": [("@", "x")]}
        batch = pa.record_batch({"kwargs": pa.array([row], arrow)})

        writing.commit([writing.stage([batch], partition=0)], version=None)

        def task(**kwargs: Any) -> None: ...

        [(payload,)] = connection.execute("SELECT payload::text FROM pgqueue_message").fetchall()
        assert Codec(task).decode(payload) == ([], given)

    def test_of_a_raw_message_needs_no_task(self, url: str, connection: Connection) -> None:
        writing = rows({"url": url, "channel": "raw"}, payload=T.StringType())
        batch = pa.record_batch({"payload": pa.array(["[1, 2]", None])})

        writing.commit([writing.stage([batch], partition=0)], version=None)

        stored = Message.objects.order_by("pk").values_list("channel", "task", "payload")
        assert list(stored) == [("raw", "", [1, 2]), ("raw", "", None)]

    def test_of_many_pieces_arrives_once(
        self, url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pgqueue.spark.staging.PIECE", 100)
        writing = rows({"url": url, "task": "tests.task"}, key=T.StringType())
        batches = [
            pa.record_batch({"key": pa.array([f"{n} {i}" for i in range(10)])}) for n in range(9)
        ]
        empty = pa.record_batch({"key": pa.array([], pa.string())})

        attempts = [
            writing.stage(batches[5:], partition=1),
            writing.stage(batches[:5], partition=0),
            writing.stage([empty], partition=2),
            writing.stage([], partition=3),
        ]
        writing.commit(attempts, version=None)

        expected = [f"{n} {i}" for n in range(9) for i in range(10)]
        assert [each.key for each in Message.objects.order_by("pk")] == expected
        assert not Staged.objects.exists()

    def test_that_is_refused_is_removed_when_spark_aborts_it(
        self, url: str, connection: Connection
    ) -> None:
        # Not in Spark, which tries to abort a write once only, and goes on if it can't.
        options = {"url": url, "task": "tests.task", "txnAppId": "import", "txnVersion": "2"}
        batch = pa.record_batch({"key": pa.array(["k"])})
        newer = BatchWriter(rows(options, key=T.StringType()))
        older = BatchWriter(rows({**options, "txnVersion": "1"}, key=T.StringType()))
        newer.commit([newer.write(iter([batch]))])
        staged = older.write(iter([batch]))

        with pytest.raises(WriteConflict):
            older.commit([staged])
        assert Staged.objects.count() == 1
        older.abort([staged, None])

        assert Message.objects.count() == 1
        assert not Staged.objects.exists()


class TestAnInvalidRow:
    @pytest.mark.parametrize(
        ("columns", "said"),
        [
            ({"priority": [0, 101]}, "'priority' has 101: it must have from -100 to 100"),
            ({"priority": [-101]}, "'priority' has -101"),
            ({"weight": [0]}, "'weight' has 0: it must have from 1 to 100"),
            ({"max_attempts": [0]}, "'max_attempts' has 0: it must have from 1"),
            ({"key": ["ä" * 501]}, "it must have from 0 to 1,000 bytes, and this has 1,002"),
            ({"channel": [""]}, "'channel' has '': it must have from 1"),
            ({"channel": ["c" * 201]}, "'channel' has 'ccc"),
            ({"task": [None]}, "'task' has a null"),
            ({"key": ["a\x00b"]}, r"'key': 'a\\x00b' has the character NUL"),
            ({"args": ['{"a": 1}']}, "'args': '{\"a\": 1}' is not a JSON list"),
            ({"kwargs": [" [1]"]}, r"'kwargs': ' \[1\]' is not a JSON object"),
            ({"kwargs": ['{"a": 1']}, "'payload' is refused: invalid input syntax for type"),
            ({"payload": ["nonsense"]}, "'payload' is refused: .*nonsense"),
            ({"kwargs": ['{"a": "\\u0000"}']}, "'payload' is refused: unsupported Unicode"),
            ({"payload": ["[1, 2]"]}, r"'payload': '\[1, 2\]' is not the payload of a task"),
            ({"payload": ['{"args": [], "kwarg": {}}']}, "is not the payload of a task"),
            ({"payload": ['{"args": {}}']}, "is not the payload of a task"),
            ({"task": ["a.b"], "payload": ["7"]}, "'7' is not the payload of a task"),
            ({"task": ["no such task!"]}, "'task': 'no such task!': it must be the import path"),
        ],
    )
    def test_is_named_and_nothing_is_stored(
        self, write: Write, columns: dict[str, Any], said: str
    ) -> None:
        with pytest.raises(InvalidRow, match=said) as raised:
            write(**columns)

        assert "\n" not in str(raised.value)
        assert not Message.objects.exists()

    def test_is_named_where_its_arguments_are_too_large(
        self, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pgqueue.spark.staging.PAYLOAD_LIMIT", 20)

        with pytest.raises(InvalidRow, match="take 29 bytes, more than 20"):
            write(kwargs=['{"a":12}'])


class TestAVariant:
    def test_becomes_the_json_that_it_was_parsed_from(
        self, write: Write, connection: Connection
    ) -> None:
        texts = ['{"a": 0.1, "b": [1, null, "ü\\n"]}', "{}", '{"big": 12345678901234567890}']

        write(kwargs=variants(*texts, None))

        stored = connection.execute(
            "SELECT payload ->> 'kwargs' FROM pgqueue_message ORDER BY id"
        ).fetchall()
        assert [json.loads(text) for (text,) in stored] == [*map(json.loads, texts), {}]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[1]", r"The column 'kwargs': '\[1\]' is not a JSON object"),
            ('{"a": 1e400}', "The column 'payload' is refused: invalid input syntax for type json"),
        ],
    )
    def test_that_is_no_object_is_refused(self, write: Write, text: str, said: str) -> None:
        with pytest.raises(InvalidRow, match=said):
            write(kwargs=variants(text))


class TestColumns:
    @pytest.mark.parametrize(
        ("types", "options", "said"),
        [
            ({"kwrags": T.StringType()}, {}, "no column 'kwrags'. Did you mean 'kwargs'"),
            ({"run_at": T.StringType()}, {}, "'run_at' is string; it must be timestamp"),
            ({"run_at": T.TimestampNTZType()}, {}, "is timestamp_ntz; it must be timestamp"),
            (
                {"kwargs": T.LongType()},
                {},
                "must be a struct, a map, a VARIANT, or a string with JSON",
            ),
            ({"args": T.StringType(), "payload": T.StringType()}, {}, "payload, or args, not both"),
            ({"payload": T.ArrayType(T.LongType())}, {}, "must be a struct of args and kwargs"),
            ({"payload": schema(a=T.LongType())}, {}, "must be a struct of args and kwargs"),
            ({"key": T.StringType()}, {"task": None}, "Rows need a task"),
            ({"args": T.StringType()}, {"task": None, "channel": "c"}, "raw message has no args"),
            ({"key": T.StringType()}, {"operation": "replay", "task": None}, "no column 'key'"),
            ({}, {"operation": "replay", "task": None}, "needs the column id"),
            ({"id": T.StringType()}, {"operation": "cancel", "task": None}, "a whole number"),
            ({"key": T.VariantType()}, {}, "'key' is variant; it must be string"),
            ({"kwargs": schema(a=T.VariantType())}, {}, "to_variant_object"),
            ({"args": T.ArrayType(T.VariantType())}, {}, "VARIANT within.*to_variant_object"),
        ],
    )
    def test_are_checked_before_anything_is_staged(
        self, types: dict[str, Any], options: dict[str, Any], said: str
    ) -> None:
        given = {"task": "t", **options}
        with pytest.raises(InvalidColumn, match=said):
            rows({name: each for name, each in given.items() if each is not None}, **types)

    def test_may_not_be_there_twice(self) -> None:
        field = T.StructField("key", T.StringType())

        with pytest.raises(InvalidColumn, match="two columns 'key'"):
            Rows(write_options({"task": "t"}, is_stream=False), T.StructType([field, field]))


class TestOptions:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"taks": "t"}, "no option 'taks'. Did you mean 'task'"),
            ({"operation": "reply"}, "no operation 'reply'. Did you mean 'replay'"),
            ({"operation": "cancel", "task": "t"}, "takes no task and no channel"),
            ({"txnAppId": "a"}, "Give txnAppId and txnVersion, or none"),
            ({"txnVersion": "1"}, "Give txnAppId and txnVersion, or none"),
            ({"txnAppId": "a", "txnVersion": "-1"}, "must be a whole number"),
            ({"task": ""}, "option task is '': it must be a name"),
            ({"task": "no such task!"}, "'no such task!': it must be the import path of a task"),
            ({"txnAppId": "a" * 1001, "txnVersion": "1"}, "option txnAppId is .*1000 bytes long"),
            ({"path": "/x"}, "takes no path"),
            ({"checkpointLocation": "/x"}, "A write has no option 'checkpointLocation'"),
        ],
    )
    def test_of_a_write_are_checked(self, given: dict[str, str], said: str) -> None:
        with pytest.raises(InvalidOption, match=said):
            write_options(given, is_stream=False)

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({}, "A stream needs the option txnAppId"),
            ({"txnAppId": "a", "txnVersion": "1"}, "A stream has no option 'txnVersion'"),
        ],
    )
    def test_of_a_stream_are_checked(self, given: dict[str, str], said: str) -> None:
        with pytest.raises(InvalidOption, match=said):
            write_options({"task": "t", **given}, is_stream=True)

    def test_overwriting_is_refused(self) -> None:
        with pytest.raises(InvalidOption, match=r"use mode\('append'\)"):
            write_options({"task": "t"}, is_stream=False, overwrites=True)
