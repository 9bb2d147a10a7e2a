from django.db import migrations

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0006_enqueue_now'),
    ]

    operations = [
        RunSQLFile('0007_toast'),
    ]
