import datetime
import django.db.models.expressions
import django.db.models.functions.comparison
import django.db.models.functions.datetime
import django.db.models.lookups
from django.db import migrations, models

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0002_tell'),
    ]

    operations = [
        migrations.CreateModel(
            name='Bell',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('channel', models.TextField(db_collation='C')),
                ('key', models.TextField(db_collation='C', null=True)),
            ],
            options={
                'db_table': 'pgqueue_bell',
            },
        ),
        migrations.CreateModel(
            name='Dedupe',
            fields=[
                ('pk', models.CompositePrimaryKey('channel', 'dedupe_key', blank=True, editable=False, primary_key=True, serialize=False)),
                ('channel', models.TextField(db_collation='C')),
                ('dedupe_key', models.TextField(db_collation='C')),
                ('message_id', models.BigIntegerField()),
                ('expires_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'pgqueue_dedupe',
            },
        ),
        migrations.CreateModel(
            name='Gate',
            fields=[
                ('channel', models.TextField(db_collation='C', primary_key=True, serialize=False)),
                ('tat', models.DateTimeField(help_text="As a lane's.")),
                ('wake_at', models.DateTimeField(help_text="When the channel's rate lets it go on.", null=True)),
            ],
            options={
                'db_table': 'pgqueue_gate',
            },
        ),
        migrations.CreateModel(
            name='Lane',
            fields=[
                ('pk', models.CompositePrimaryKey('channel', 'key', blank=True, editable=False, primary_key=True, serialize=False)),
                ('channel', models.TextField(db_collation='C')),
                ('key', models.TextField(db_collation='C')),
                ('state', models.TextField(choices=[('idle', 'Idle'), ('runnable', 'Runnable'), ('saturated', 'Saturated'), ('throttled', 'Throttled')])),
                ('turn_at', models.DateTimeField(help_text='Its place in the round: the earliest is served next.')),
                ('tat', models.DateTimeField(help_text='Theoretical arrival time: what the rate is kept by.')),
                ('wake_at', models.DateTimeField(help_text='When a throttled one may go on.', null=True)),
            ],
            options={
                'db_table': 'pgqueue_lane',
            },
        ),
        migrations.CreateModel(
            name='Policy',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('channel', models.TextField(db_collation='C')),
                ('scope', models.TextField(choices=[('channel', 'The channel as a whole'), ('each', 'Each key'), ('key', 'One key')])),
                ('key', models.TextField(blank=True, db_collation='C', db_default='', default='', help_text='Where it is for one key.')),
                ('max_running', models.IntegerField(blank=True, help_text='Messages that run at once, on all workers together.', null=True)),
                ('rate', models.FloatField(blank=True, help_text='Messages started in the time below.', null=True)),
                ('per', models.DurationField(db_default=datetime.timedelta(seconds=1), default=datetime.timedelta(seconds=1), help_text='The time that the rate is for: 1 second, or 00:01:00.')),
                ('burst', models.IntegerField(blank=True, help_text='Starts that may follow each other at once after a pause. If empty: those of 100 ms, and at least 1.', null=True)),
                ('max_size', models.IntegerField(blank=True, help_text='Messages that wait or run, beyond which none is accepted.', null=True)),
                ('weight', models.SmallIntegerField(blank=True, help_text='Messages for each turn, where other keys have one.', null=True)),
                ('governs', models.GeneratedField(db_persist=True, expression=models.ExpressionWrapper(models.Q(('max_running__isnull', False), ('rate__isnull', False), ('weight__isnull', False), _connector='OR'), output_field=models.BooleanField()), help_text='Whether claims have to look at it.', output_field=models.BooleanField())),
            ],
            options={
                'verbose_name_plural': 'policies',
                'db_table': 'pgqueue_policy',
            },
        ),
        migrations.CreateModel(
            name='Waiter',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('message_id', models.BigIntegerField()),
                ('until', models.DateTimeField()),
            ],
            options={
                'db_table': 'pgqueue_waiter',
            },
        ),
        migrations.RemoveField(
            model_name='channel',
            name='options',
        ),
        migrations.AddField(
            model_name='channel',
            name='handler',
            field=models.TextField(blank=True, db_default='', default='', help_text='The import path of the task that raw messages are given to.'),
        ),
        migrations.AddField(
            model_name='channel',
            name='on_full',
            field=models.TextField(choices=[('refuse', 'Its producer gets ChannelFull'), ('drop', 'It is dropped')], db_default='refuse', default='refuse', help_text="What becomes of a message beyond a policy's max_size."),
        ),
        migrations.AddField(
            model_name='channel',
            name='watched',
            field=models.BooleanField(db_default=False, default=False, help_text='What happens to its messages is notified, for watch().'),
        ),
        migrations.AddField(
            model_name='message',
            name='debounced',
            field=models.BooleanField(db_default=False, help_text='Its dedupe_key is its own only until it is started.'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(condition=models.Q(('governed', True), ('ordered', False), ('state', 'ready')), fields=['channel', 'key', 'rank', 'run_at', 'id'], name='pgqueue_message_governed'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(condition=models.Q(('ordered', True), ('state__in', ['held', 'scheduled', 'ready', 'running'])), fields=['channel', 'key', 'id'], name='pgqueue_message_ordered'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(condition=models.Q(('ordered', True), ('state', 'dead')), fields=['channel', 'key', 'id'], name='pgqueue_message_ordered_dead'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(condition=models.Q(('state__in', ['held', 'scheduled'])), fields=['channel', 'key'], name='pgqueue_message_waiting'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(condition=models.Q(('state', 'held')), fields=['id'], name='pgqueue_message_held'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(condition=models.Q(('expires_at__isnull', False), ('state__in', ['held', 'scheduled', 'ready'])), fields=['expires_at'], name='pgqueue_message_expires'),
        ),
        migrations.AddConstraint(
            model_name='message',
            constraint=models.UniqueConstraint(condition=models.Q(('dedupe_key__isnull', False), ('state__in', ['held', 'scheduled', 'ready', 'running'])), fields=('channel', 'dedupe_key'), name='pgqueue_message_dedupe'),
        ),
        migrations.AddIndex(
            model_name='dedupe',
            index=models.Index(fields=['expires_at'], name='pgqueue_dedupe_expires'),
        ),
        migrations.AddIndex(
            model_name='lane',
            index=models.Index(condition=models.Q(('state', 'runnable')), fields=['channel', 'turn_at'], name='pgqueue_lane_runnable'),
        ),
        migrations.AddIndex(
            model_name='lane',
            index=models.Index(condition=models.Q(('state', 'throttled')), fields=['wake_at'], name='pgqueue_lane_throttled'),
        ),
        migrations.AddConstraint(
            model_name='lane',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['idle', 'runnable', 'saturated', 'throttled'])), name='pgqueue_lane_state'),
        ),
        migrations.AddIndex(
            model_name='policy',
            index=models.Index(condition=models.Q(('weight__isnull', False)), fields=['channel'], name='pgqueue_policy_weighted'),
        ),
        migrations.AddIndex(
            model_name='policy',
            index=models.Index(condition=models.Q(('max_size__isnull', False)), fields=['channel'], name='pgqueue_policy_sized'),
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.UniqueConstraint(fields=('channel', 'scope', 'key'), name='pgqueue_policy_once', violation_error_message='There is such a policy already.'),
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('scope', 'key'), models.Q(('key', ''), _negated=True)), models.Q(('key', ''), ('scope__in', ['channel', 'each'])), _connector='OR'), name='pgqueue_policy_scope', violation_error_message="A policy for one key names it; the others don't."),
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.CheckConstraint(condition=models.Q(('max_running__gte', 1)), name='pgqueue_policy_max_running', violation_error_message='max_running must be 1 or more.'),
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.CheckConstraint(condition=models.Q(('burst__gte', 1)), name='pgqueue_policy_burst', violation_error_message='burst must be 1 or more.'),
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.CheckConstraint(condition=models.Q(('max_size__gte', 1)), name='pgqueue_policy_max_size', violation_error_message='max_size must be 1 or more.'),
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.CheckConstraint(condition=models.Q(('rate__range', (1e-06, 1000000.0))), name='pgqueue_policy_rate', violation_error_message='rate must be a millionth or more, and a million at most.'),
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.CheckConstraint(condition=models.Q(('per__gt', datetime.timedelta(0)), ('per__lte', datetime.timedelta(days=366))), name='pgqueue_policy_per', violation_error_message='per must be longer than 0, and a year at most.'),
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(models.ExpressionWrapper(django.db.models.expressions.CombinedExpression(models.ExpressionWrapper(django.db.models.functions.datetime.Extract('per', 'epoch'), output_field=models.FloatField()), '/', django.db.models.functions.comparison.NullIf('rate', 0.0)), output_field=models.FloatField()), 1e-06), django.db.models.lookups.LessThanOrEqual(models.ExpressionWrapper(django.db.models.expressions.CombinedExpression(models.ExpressionWrapper(django.db.models.expressions.CombinedExpression(models.ExpressionWrapper(django.db.models.functions.datetime.Extract('per', 'epoch'), output_field=models.FloatField()), '/', django.db.models.functions.comparison.NullIf('rate', 0.0)), output_field=models.FloatField()), '*', django.db.models.functions.comparison.Coalesce('burst', 1)), output_field=models.FloatField()), 3162240000.0)), name='pgqueue_policy_pace', violation_error_message='By rate and per, a start must take a microsecond or more, and a burst 100 years or less.'),
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.CheckConstraint(condition=models.Q(('weight__isnull', True), models.Q(('weight__range', (1, 100)), models.Q(('scope', 'channel'), _negated=True)), _connector='OR'), name='pgqueue_policy_weight', violation_error_message='weight must be 1 to 100, and is for keys.'),
        ),
        migrations.AddIndex(
            model_name='waiter',
            index=models.Index(fields=['message_id'], name='pgqueue_waiter_message'),
        ),
        RunSQLFile('0003_lanes'),
        RunSQLFile('0003_enqueue'),
    ]
