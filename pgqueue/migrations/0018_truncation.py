"""Tables whose ends vacuum leaves in place."""

from django.db import migrations

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):
    dependencies = [
        ("pgqueue", "0017_breakers"),
    ]

    operations = [
        RunSQLFile("0018_truncation"),
    ]
