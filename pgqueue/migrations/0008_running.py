from django.db import migrations

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0007_toast'),
    ]

    operations = [
        RunSQLFile('0008_running'),
    ]
