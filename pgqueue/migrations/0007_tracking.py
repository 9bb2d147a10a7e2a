"""Table events, and their trail."""

from django.db import migrations

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0006_subscriptions'),
    ]

    operations = [
        RunSQLFile('0007_tracking'),
    ]
