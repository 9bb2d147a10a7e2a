"""What a producer and an operator may do without rights on the tables."""

from django.db import migrations

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0007_pipeline'),
    ]

    operations = [
        RunSQLFile('0008_roles'),
    ]
