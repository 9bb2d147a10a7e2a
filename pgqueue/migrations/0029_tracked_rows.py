"""What is written to a tracked table is published exactly, in the order of what became of each row."""

from typing import Any

from django.db import migrations

from pgqueue.engine import tracking
from pgqueue.migrations.sql import RunSQLFile


def renew(apps: Any, schema_editor: Any) -> None:
    """Write the functions of tracked tables anew; their triggers stay."""
    if schema_editor.connection.vendor != "postgresql":
        return
    for table in tracking.tracked(schema_editor.connection):
        for statement in tracking.renew(table):
            schema_editor.execute(statement.as_string(None), params=None)


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0028_locks'),
    ]

    operations = [
        RunSQLFile('0029_tracked_rows'),
        # The functions of before are not brought back: those of now do for the code of before, too.
        migrations.RunPython(renew, migrations.RunPython.noop),
    ]
