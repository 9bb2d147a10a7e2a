"""How the tables are stored and vacuumed."""

from django.db import migrations

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0001_initial'),
    ]

    operations = [
        RunSQLFile('0002_storage'),
    ]
