"""Messages of a flow may have names, by which the flow finds them."""

from django.db import migrations

import pgqueue.models.fields
from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0029_tracked_rows'),
    ]

    operations = [
        migrations.AddField(
            model_name='flow',
            name='names',
            field=pgqueue.models.fields.JSONField(db_default={}, editable=False, help_text='The ids of its messages that have a name, by these names.'),
        ),
        RunSQLFile('0030_flow_names'),
    ]
