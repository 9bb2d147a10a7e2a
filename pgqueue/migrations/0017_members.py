"""Messages of flows are stored as such, where they have dedupe keys, too."""

from django.db import migrations

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0016_flows'),
    ]

    operations = [RunSQLFile('0017_members')]
