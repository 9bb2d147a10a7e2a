"""What can't be read is refused where it enters."""

from django.db import migrations

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0024_tracked_columns'),
    ]

    operations = [RunSQLFile('0025_readable')]
