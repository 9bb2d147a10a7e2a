from django.db import migrations

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0005_retention'),
    ]

    operations = [
        RunSQLFile('0006_enqueue_now'),
    ]
