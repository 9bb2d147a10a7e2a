"""Which writers of a lake have the type VARIANT, as the guide says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from pyiceberg.schema import Schema as IcebergSchema

from pgqueue.arrow.extensions import duckdb_with

FIELD = '{{"type": "struct", "fields": [{{"name": "payload", "type": "variant", {}}}]}}'


def test_ducklake_stores_it(tmp_path: Path) -> None:
    with duckdb_with("ducklake") as db:
        db.execute(f"ATTACH 'ducklake:{tmp_path}/catalog' AS lake (DATA_PATH '{tmp_path}/data')")
        db.execute("CREATE TABLE lake.events (payload VARIANT)")
        db.execute("""INSERT INTO lake.events SELECT '{"a": [1, 2]}'::JSON::VARIANT""")

        assert db.execute("SELECT payload.a FROM lake.events").fetchall() == [([1, 2],)]


def test_delta_writes_it_into_a_table_with_the_feature(tmp_path: Path) -> None:
    schema = Schema.from_json(FIELD.format('"nullable": true, "metadata": {}'))

    table = DeltaTable.create(tmp_path, schema)

    assert table.protocol().writer_features == ["variantType"]
    assert pa.types.is_struct(pa.schema(table.schema().to_arrow()).field("payload").type)


def test_iceberg_refuses_it() -> None:
    with pytest.raises(ValueError, match="Unsupported field type: 'variant'"):
        IcebergSchema.model_validate_json(FIELD.format('"id": 1, "required": false'))
