from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0008_running'),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name='message',
            name='pgqueue_message_dead_since',
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(condition=models.Q(('claimed_at__isnull', False), ('state', 'dead')), fields=['channel', 'claimed_at'], name='pgqueue_message_dead_since'),
        ),
    ]
