"""How long leases are, and up to what time retention has gone: clocks may jump. And since when duties fail."""

from django.db import migrations, models

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0025_readable'),
    ]

    operations = [
        migrations.AddField(
            model_name='duty',
            name='upto',
            field=models.DateTimeField(help_text='Of the duty “retention”: nothing younger than this and a day is removed.', null=True, verbose_name='up to'),
        ),
        migrations.AddField(
            model_name='duty',
            name='failing_since',
            field=models.DateTimeField(help_text='When it first failed since it was last done.', null=True, verbose_name='failing since'),
        ),
        migrations.AddField(
            model_name='message',
            name='lease_for',
            field=models.DurationField(blank=True, help_text='How long its lease is: it ends that long after now at the latest.', null=True, verbose_name='lease for'),
        ),
        RunSQLFile('0027_lengths'),
    ]
