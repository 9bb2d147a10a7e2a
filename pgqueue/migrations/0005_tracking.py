"""Table events, and their trail."""

from django.db import migrations

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0004_events'),
    ]

    operations = [
        RunSQLFile('0005_tracking'),
        RunSQLFile('0005_trail'),
    ]
