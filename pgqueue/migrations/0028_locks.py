"""Many keys at once harm nobody: their locks are bounded, and the router takes turns."""

from django.db import migrations, models

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0027_lengths'),
    ]

    operations = [
        RunSQLFile('0028_locks'),
        migrations.AddIndex(
            model_name='bell',
            index=models.Index(models.F('channel'), models.F('id'), name='pgqueue_bell_turns'),
        ),
    ]
