"""The messages of a schedule's last ticks."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0011_statistics'),
    ]

    operations = [
        migrations.AddField(
            model_name='schedule',
            name='recent',
            field=models.JSONField(db_default=[], default=list, editable=False, help_text='The messages of the last ten ticks that had one, the newest first.'),
        ),
    ]
