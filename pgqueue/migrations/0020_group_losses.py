"""Which event ends the processes that read for a group."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0019_roles'),
    ]

    operations = [
        migrations.AddField(
            model_name='cursor',
            name='suspect',
            field=models.BigIntegerField(help_text="The event that may have ended the last reader's process.", null=True),
        ),
        migrations.AddField(
            model_name='cursor',
            name='lost',
            field=models.IntegerField(db_default=0, help_text='How many readers were lost there; 1: which event is not known.'),
        ),
        migrations.AddField(
            model_name='cursor',
            name='begun_at',
            field=models.DateTimeField(help_text="When the suspected event's handler began, while it runs.", null=True),
        ),
    ]
