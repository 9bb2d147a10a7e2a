"""Functions that are not compiled just in time."""

from django.db import migrations

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):
    dependencies = [
        ("pgqueue", "0013_weights"),
    ]

    operations = [
        RunSQLFile("0014_jit"),
    ]
