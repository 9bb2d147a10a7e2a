"""Excluded columns of tracked tables stay excluded under other names: functions are written anew."""

from typing import Any

from django.db import migrations

from pgqueue.engine import tracking


def renew(apps: Any, schema_editor: Any) -> None:
    """Write the functions of tracked tables anew; their triggers stay."""
    if schema_editor.connection.vendor != "postgresql":
        return
    for table in tracking.tracked(schema_editor.connection):
        for statement in tracking.renew(table):
            schema_editor.execute(statement.as_string(None), params=None)


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0023_meaning'),
    ]

    # The functions of before are not brought back: those of now do for the code of before, too.
    operations = [migrations.RunPython(renew, migrations.RunPython.noop)]
