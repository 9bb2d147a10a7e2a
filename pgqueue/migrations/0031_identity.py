"""Which database this is, and which one the rows of an export are from."""

from django.db import migrations, models

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0030_flow_names'),
    ]

    operations = [
        migrations.AddField(
            model_name='export',
            name='database',
            field=models.TextField(db_default='', help_text='Where the rows are from: see engine/identity.'),
        ),
        RunSQLFile('0031_identity'),
    ]
