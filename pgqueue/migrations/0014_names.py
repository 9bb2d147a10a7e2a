"""Names and texts that can be translated: nothing of them is in the database."""

import datetime
import pgqueue.options.webhook_options
import pgqueue.models.fields
import pgqueue.models.fields
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0013_overview'),
    ]

    # Nothing in the database is to be altered: so each of them need not be looked at.
    operations = [migrations.SeparateDatabaseAndState(state_operations=[
        migrations.AlterModelOptions(
            name='channel',
            options={'verbose_name': 'channel', 'verbose_name_plural': 'channels'},
        ),
        migrations.AlterModelOptions(
            name='duty',
            options={'default_permissions': (), 'verbose_name': 'duty', 'verbose_name_plural': 'duties'},
        ),
        migrations.AlterModelOptions(
            name='event',
            options={'verbose_name': 'event', 'verbose_name_plural': 'events'},
        ),
        migrations.AlterModelOptions(
            name='group',
            options={'verbose_name': 'group', 'verbose_name_plural': 'groups'},
        ),
        migrations.AlterModelOptions(
            name='history',
            options={'verbose_name': 'history', 'verbose_name_plural': 'history'},
        ),
        migrations.AlterModelOptions(
            name='message',
            options={'permissions': [('operate_message', 'Can run, cancel and replay messages'), ('purge_message', 'Can discard messages')], 'verbose_name': 'message', 'verbose_name_plural': 'messages'},
        ),
        migrations.AlterModelOptions(
            name='policy',
            options={'verbose_name': 'policy', 'verbose_name_plural': 'policies'},
        ),
        migrations.AlterModelOptions(
            name='schedule',
            options={'verbose_name': 'schedule', 'verbose_name_plural': 'schedules'},
        ),
        migrations.AlterModelOptions(
            name='subscription',
            options={'verbose_name': 'subscription', 'verbose_name_plural': 'subscriptions'},
        ),
        migrations.AlterModelOptions(
            name='webhook',
            options={'permissions': [('operate_webhook', 'Can rotate, resume and test webhooks')], 'verbose_name': 'webhook', 'verbose_name_plural': 'webhooks'},
        ),
        migrations.AlterModelOptions(
            name='worker',
            options={'verbose_name': 'worker', 'verbose_name_plural': 'workers'},
        ),
        migrations.AlterField(
            model_name='channel',
            name='dead_retention',
            field=models.DurationField(blank=True, help_text='How long its dead letters are kept before they are discarded. Empty: as PGQUEUE says.', null=True, verbose_name='dead retention'),
        ),
        migrations.AlterField(
            model_name='channel',
            name='handler',
            field=models.TextField(blank=True, db_default='', default='', help_text='The import path of the task that raw messages are given to.', verbose_name='handler'),
        ),
        migrations.AlterField(
            model_name='channel',
            name='name',
            field=models.TextField(db_collation='C', primary_key=True, serialize=False, verbose_name='name'),
        ),
        migrations.AlterField(
            model_name='channel',
            name='on_dead',
            field=models.TextField(choices=[('block', 'It blocks them'), ('skip', 'It is skipped')], db_default='block', default='block', help_text='What a dead message does to those behind it, where they run in order.', verbose_name='on dead'),
        ),
        migrations.AlterField(
            model_name='channel',
            name='on_full',
            field=models.TextField(choices=[('refuse', 'Its producer gets ChannelFull'), ('drop', 'It is dropped')], db_default='refuse', default='refuse', help_text="What becomes of a message beyond a policy's max_size.", verbose_name='on full'),
        ),
        migrations.AlterField(
            model_name='channel',
            name='paused',
            field=models.BooleanField(db_default=False, default=False, help_text='Workers start none of its messages.', verbose_name='paused'),
        ),
        migrations.AlterField(
            model_name='channel',
            name='retention',
            field=models.DurationField(blank=True, help_text='How long its history is kept. Empty: as PGQUEUE says.', null=True, verbose_name='retention'),
        ),
        migrations.AlterField(
            model_name='channel',
            name='retention_cancelled',
            field=models.DurationField(blank=True, help_text='The same for messages that were cancelled.', null=True, verbose_name='retention cancelled'),
        ),
        migrations.AlterField(
            model_name='channel',
            name='retention_discarded',
            field=models.DurationField(blank=True, help_text='The same for messages that were discarded, as dead letters are in the end.', null=True, verbose_name='retention discarded'),
        ),
        migrations.AlterField(
            model_name='channel',
            name='retention_expired',
            field=models.DurationField(blank=True, help_text='The same for messages that expired.', null=True, verbose_name='retention expired'),
        ),
        migrations.AlterField(
            model_name='channel',
            name='retention_succeeded',
            field=models.DurationField(blank=True, help_text='How long messages that succeeded are kept. Empty: as its history.', null=True, verbose_name='retention succeeded'),
        ),
        migrations.AlterField(
            model_name='channel',
            name='watched',
            field=models.BooleanField(db_default=False, default=False, help_text='Whether watch() is notified of what happens to its messages.', verbose_name='watched'),
        ),
        migrations.AlterField(
            model_name='duty',
            name='due_at',
            field=models.DateTimeField(verbose_name='due at'),
        ),
        migrations.AlterField(
            model_name='duty',
            name='name',
            field=models.TextField(db_collation='C', primary_key=True, serialize=False, verbose_name='name'),
        ),
        migrations.AlterField(
            model_name='duty',
            name='ran_at',
            field=models.DateTimeField(null=True, verbose_name='ran at'),
        ),
        migrations.AlterField(
            model_name='event',
            name='created_at',
            field=models.DateTimeField(verbose_name='created at'),
        ),
        migrations.AlterField(
            model_name='event',
            name='key',
            field=models.TextField(db_collation='C', verbose_name='key'),
        ),
        migrations.AlterField(
            model_name='event',
            name='metadata',
            field=models.JSONField(verbose_name='metadata'),
        ),
        migrations.AlterField(
            model_name='event',
            name='payload',
            field=models.JSONField(null=True, verbose_name='payload'),
        ),
        migrations.AlterField(
            model_name='event',
            name='position',
            field=models.BigIntegerField(primary_key=True, serialize=False, verbose_name='position'),
        ),
        migrations.AlterField(
            model_name='event',
            name='topic',
            field=models.TextField(db_collation='C', verbose_name='topic'),
        ),
        migrations.AlterField(
            model_name='group',
            name='created_at',
            field=models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp(), verbose_name='created at'),
        ),
        migrations.AlterField(
            model_name='group',
            name='name',
            field=models.TextField(db_collation='C', primary_key=True, serialize=False, verbose_name='name'),
        ),
        migrations.AlterField(
            model_name='group',
            name='partitions',
            field=models.IntegerField(db_default=1, default=1, verbose_name='partitions'),
        ),
        migrations.AlterField(
            model_name='history',
            name='attempt',
            field=models.IntegerField(verbose_name='attempt'),
        ),
        migrations.AlterField(
            model_name='history',
            name='body',
            field=models.BinaryField(null=True, verbose_name='body'),
        ),
        migrations.AlterField(
            model_name='history',
            name='cancel_requested_at',
            field=models.DateTimeField(null=True, verbose_name='cancel requested at'),
        ),
        migrations.AlterField(
            model_name='history',
            name='channel',
            field=models.TextField(db_collation='C', verbose_name='channel'),
        ),
        migrations.AlterField(
            model_name='history',
            name='claimed_at',
            field=models.DateTimeField(null=True, verbose_name='claimed at'),
        ),
        migrations.AlterField(
            model_name='history',
            name='created_at',
            field=models.DateTimeField(verbose_name='created at'),
        ),
        migrations.AlterField(
            model_name='history',
            name='dedupe_key',
            field=models.TextField(db_collation='C', null=True, verbose_name='dedupe key'),
        ),
        migrations.AlterField(
            model_name='history',
            name='errors',
            field=models.JSONField(verbose_name='errors'),
        ),
        migrations.AlterField(
            model_name='history',
            name='expires_at',
            field=models.DateTimeField(null=True, verbose_name='expires at'),
        ),
        migrations.AlterField(
            model_name='history',
            name='failures',
            field=models.IntegerField(verbose_name='failures'),
        ),
        migrations.AlterField(
            model_name='history',
            name='finished_at',
            field=models.DateTimeField(verbose_name='finished at'),
        ),
        migrations.AlterField(
            model_name='history',
            name='id',
            field=models.BigIntegerField(primary_key=True, serialize=False, verbose_name='ID'),
        ),
        migrations.AlterField(
            model_name='history',
            name='key',
            field=models.TextField(db_collation='C', verbose_name='key'),
        ),
        migrations.AlterField(
            model_name='history',
            name='lost',
            field=models.IntegerField(verbose_name='lost'),
        ),
        migrations.AlterField(
            model_name='history',
            name='max_attempts',
            field=models.IntegerField(verbose_name='max attempts'),
        ),
        migrations.AlterField(
            model_name='history',
            name='metadata',
            field=models.JSONField(verbose_name='metadata'),
        ),
        migrations.AlterField(
            model_name='history',
            name='options',
            field=models.JSONField(null=True, verbose_name='options'),
        ),
        migrations.AlterField(
            model_name='history',
            name='ordered',
            field=models.BooleanField(verbose_name='ordered'),
        ),
        migrations.AlterField(
            model_name='history',
            name='outcome',
            field=models.TextField(choices=[('succeeded', 'Succeeded'), ('cancelled', 'Cancelled'), ('discarded', 'Discarded'), ('expired', 'Expired')], verbose_name='outcome'),
        ),
        migrations.AlterField(
            model_name='history',
            name='parent_id',
            field=models.BigIntegerField(null=True, verbose_name='parent id'),
        ),
        migrations.AlterField(
            model_name='history',
            name='payload',
            field=models.JSONField(null=True, verbose_name='payload'),
        ),
        migrations.AlterField(
            model_name='history',
            name='priority',
            field=models.SmallIntegerField(verbose_name='priority'),
        ),
        migrations.AlterField(
            model_name='history',
            name='progress',
            field=models.JSONField(null=True, verbose_name='progress'),
        ),
        migrations.AlterField(
            model_name='history',
            name='result',
            field=models.JSONField(null=True, verbose_name='result'),
        ),
        migrations.AlterField(
            model_name='history',
            name='run_at',
            field=models.DateTimeField(verbose_name='run at'),
        ),
        migrations.AlterField(
            model_name='history',
            name='started_at',
            field=models.DateTimeField(null=True, verbose_name='started at'),
        ),
        migrations.AlterField(
            model_name='history',
            name='task',
            field=models.TextField(verbose_name='task'),
        ),
        migrations.AlterField(
            model_name='history',
            name='txid',
            field=models.BigIntegerField(verbose_name='txid'),
        ),
        migrations.AlterField(
            model_name='history',
            name='worker_id',
            field=models.UUIDField(null=True, verbose_name='worker id'),
        ),
        migrations.AlterField(
            model_name='message',
            name='attempt',
            field=models.IntegerField(db_default=0, help_text='Claims so far. A part of the fence: never reset.', verbose_name='attempt'),
        ),
        migrations.AlterField(
            model_name='message',
            name='body',
            field=models.BinaryField(blank=True, null=True, verbose_name='body'),
        ),
        migrations.AlterField(
            model_name='message',
            name='cancel_requested_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='cancel requested at'),
        ),
        migrations.AlterField(
            model_name='message',
            name='channel',
            field=models.TextField(db_collation='C', verbose_name='channel'),
        ),
        migrations.AlterField(
            model_name='message',
            name='claimed_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='claimed at'),
        ),
        migrations.AlterField(
            model_name='message',
            name='created_at',
            field=models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp(), verbose_name='created at'),
        ),
        migrations.AlterField(
            model_name='message',
            name='debounced',
            field=models.BooleanField(db_default=False, help_text='Its dedupe_key is its own only until it is started.', verbose_name='debounced'),
        ),
        migrations.AlterField(
            model_name='message',
            name='dedupe_key',
            field=models.TextField(blank=True, db_collation='C', null=True, verbose_name='dedupe key'),
        ),
        migrations.AlterField(
            model_name='message',
            name='errors',
            field=models.JSONField(db_default=[], help_text='The first error and the last nine.', verbose_name='errors'),
        ),
        migrations.AlterField(
            model_name='message',
            name='expires_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='expires at'),
        ),
        migrations.AlterField(
            model_name='message',
            name='failures',
            field=models.IntegerField(db_default=0, help_text='Errors it raised so far.', verbose_name='failures'),
        ),
        migrations.AlterField(
            model_name='message',
            name='governed',
            field=models.BooleanField(db_default=False, verbose_name='governed'),
        ),
        migrations.AlterField(
            model_name='message',
            name='id',
            field=models.BigAutoField(primary_key=True, serialize=False, verbose_name='ID'),
        ),
        migrations.AlterField(
            model_name='message',
            name='key',
            field=models.TextField(blank=True, db_collation='C', db_default='', help_text='The sub-queue inside its channel: a tenant, a user.', verbose_name='key'),
        ),
        migrations.AlterField(
            model_name='message',
            name='lease_until',
            field=models.DateTimeField(blank=True, null=True, verbose_name='lease until'),
        ),
        migrations.AlterField(
            model_name='message',
            name='lost',
            field=models.IntegerField(db_default=0, help_text='Workers that died while they ran it.', verbose_name='lost'),
        ),
        migrations.AlterField(
            model_name='message',
            name='max_attempts',
            field=models.IntegerField(help_text='Errors after which it is dead.', verbose_name='max attempts'),
        ),
        migrations.AlterField(
            model_name='message',
            name='metadata',
            field=models.JSONField(blank=True, db_default={}, verbose_name='metadata'),
        ),
        migrations.AlterField(
            model_name='message',
            name='options',
            field=models.JSONField(blank=True, help_text="What the task's using() changed for this message alone.", null=True, verbose_name='options'),
        ),
        migrations.AlterField(
            model_name='message',
            name='ordered',
            field=models.BooleanField(db_default=False, verbose_name='ordered'),
        ),
        migrations.AlterField(
            model_name='message',
            name='parent_id',
            field=models.BigIntegerField(blank=True, null=True, verbose_name='parent id'),
        ),
        migrations.AlterField(
            model_name='message',
            name='payload',
            field=models.JSONField(blank=True, null=True, verbose_name='payload'),
        ),
        migrations.AlterField(
            model_name='message',
            name='priority',
            field=models.SmallIntegerField(db_default=0, help_text='-100 to 100, higher first.', verbose_name='priority'),
        ),
        migrations.AlterField(
            model_name='message',
            name='progress',
            field=models.JSONField(blank=True, null=True, verbose_name='progress'),
        ),
        migrations.AlterField(
            model_name='message',
            name='run_at',
            field=models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp(), verbose_name='run at'),
        ),
        migrations.AlterField(
            model_name='message',
            name='started_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='started at'),
        ),
        migrations.AlterField(
            model_name='message',
            name='state',
            field=models.TextField(choices=[('held', 'Held'), ('scheduled', 'Scheduled'), ('ready', 'Ready'), ('running', 'Running'), ('dead', 'Dead')], verbose_name='state'),
        ),
        migrations.AlterField(
            model_name='message',
            name='task',
            field=models.TextField(help_text="The import path of the task's function.", verbose_name='task'),
        ),
        migrations.AlterField(
            model_name='message',
            name='worker_id',
            field=models.UUIDField(blank=True, null=True, verbose_name='worker id'),
        ),
        migrations.AlterField(
            model_name='policy',
            name='burst',
            field=models.IntegerField(blank=True, help_text='Starts that may follow each other at once after a pause. If empty: those of 100 ms, and at least 1.', null=True, verbose_name='burst'),
        ),
        migrations.AlterField(
            model_name='policy',
            name='channel',
            field=models.TextField(db_collation='C', verbose_name='channel'),
        ),
        migrations.AlterField(
            model_name='policy',
            name='key',
            field=models.TextField(blank=True, db_collation='C', db_default='', default='', help_text='The key, if the policy is for one key.', verbose_name='key'),
        ),
        migrations.AlterField(
            model_name='policy',
            name='max_running',
            field=models.IntegerField(blank=True, help_text='Messages that run at once, on all workers together.', null=True, verbose_name='max running'),
        ),
        migrations.AlterField(
            model_name='policy',
            name='max_size',
            field=models.IntegerField(blank=True, help_text='Messages that wait or run, beyond which none is accepted.', null=True, verbose_name='max size'),
        ),
        migrations.AlterField(
            model_name='policy',
            name='per',
            field=models.DurationField(db_default=datetime.timedelta(seconds=1), default=datetime.timedelta(seconds=1), help_text='The time that the rate is for: 1 second, or 00:01:00.', verbose_name='per'),
        ),
        migrations.AlterField(
            model_name='policy',
            name='rate',
            field=models.FloatField(blank=True, help_text='Messages started in the time below.', null=True, verbose_name='rate'),
        ),
        migrations.AlterField(
            model_name='policy',
            name='scope',
            field=models.TextField(choices=[('channel', 'The channel as a whole'), ('each', 'Each key'), ('key', 'One key')], verbose_name='scope'),
        ),
        migrations.AlterField(
            model_name='policy',
            name='weight',
            field=models.SmallIntegerField(blank=True, help_text='Messages for each turn, where other keys have one.', null=True, verbose_name='weight'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='args',
            field=models.JSONField(blank=True, db_default=[], default=list, verbose_name='args'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='channel',
            field=models.TextField(blank=True, db_collation='C', db_default='', default='', help_text="Empty: the task's.", verbose_name='channel'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='declared',
            field=models.BooleanField(db_default=False, default=False, editable=False, help_text='Whether it is declared in code.', verbose_name='declared'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='definition',
            field=models.TextField(db_default='', default='', editable=False, help_text='A digest of its declaration in code.', verbose_name='definition'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='error',
            field=models.TextField(db_default='', default='', editable=False, help_text='Why the last tick had no message.', verbose_name='error'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='every',
            field=models.DurationField(blank=True, help_text='An interval instead of a cron line: 00:05:00.', null=True, verbose_name='every'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='kwargs',
            field=models.JSONField(blank=True, db_default={}, default=dict, verbose_name='kwargs'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='message_id',
            field=models.BigIntegerField(editable=False, help_text='The message of that tick.', null=True, verbose_name='message id'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='missed',
            field=models.TextField(choices=[('skip', 'Skip them'), ('once', 'One message for all of them'), ('all', 'One message for each')], db_default='once', default='once', help_text='What becomes of ticks that came while no worker ran.', verbose_name='missed'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='name',
            field=models.TextField(db_collation='C', primary_key=True, serialize=False, verbose_name='name'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='next_at',
            field=models.DateTimeField(editable=False, help_text='The first tick that was not done. Null: the next one from now.', null=True, verbose_name='next at'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='overlap',
            field=models.TextField(choices=[('allow', 'Let them run at once'), ('skip', 'Skip the tick'), ('one', 'Queue behind it')], db_default='allow', default='allow', help_text='What to do while the message of an earlier tick waits or runs.', verbose_name='overlap'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='paused',
            field=models.BooleanField(db_default=False, default=False, help_text='A paused schedule enqueues nothing.', verbose_name='paused'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='priority',
            field=models.SmallIntegerField(blank=True, help_text="Empty: the task's.", null=True, verbose_name='priority'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='recent',
            field=models.JSONField(db_default=[], default=list, editable=False, help_text='The messages of the last ten ticks that had one, the newest first.', verbose_name='recent'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='seen_at',
            field=models.DateTimeField(editable=False, help_text='About when a worker last had it in its code.', null=True, verbose_name='seen at'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='superseded',
            field=pgqueue.models.fields.NamesField(db_default=[], default=list, editable=False, help_text='Earlier declarations in code, newest first.', verbose_name='superseded'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='task',
            field=models.TextField(help_text='The import path of the task.', verbose_name='task'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='ticked_at',
            field=models.DateTimeField(editable=False, help_text='The last tick that had a message.', null=True, verbose_name='ticked at'),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='timezone',
            field=models.TextField(db_default='UTC', default='UTC', help_text='The time zone of the cron line: Europe/Berlin.', verbose_name='timezone'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='batch',
            field=models.IntegerField(blank=True, help_text='Events in one message, at most. Empty: one.', null=True, verbose_name='batch'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='channel',
            field=models.TextField(db_collation='C', db_default='default', default='default', verbose_name='channel'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='created_at',
            field=models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp(), editable=False, verbose_name='created at'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='declared',
            field=models.BooleanField(db_default=False, default=False, editable=False, verbose_name='declared'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='definition',
            field=models.TextField(db_default='', default='', editable=False, verbose_name='definition'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='eq_path',
            field=models.TextField(db_default='', default='', editable=False, verbose_name='eq path'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='eq_value',
            field=models.JSONField(editable=False, null=True, verbose_name='eq value'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='error',
            field=models.TextField(db_default='', default='', editable=False, help_text='Why the dispatch has paused it.', verbose_name='error'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='exact',
            field=pgqueue.models.fields.NamesField(db_default=[], default=list, editable=False, verbose_name='exact'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='expires_after',
            field=models.DurationField(blank=True, help_text='It is deleted unless it is renewed for so long.', null=True, verbose_name='expires after'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='expires_at',
            field=models.DateTimeField(editable=False, null=True, verbose_name='expires at'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='follows',
            field=models.BooleanField(db_default=False, default=False, editable=False, help_text='It is where the dispatch is.', verbose_name='follows'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='key',
            field=models.TextField(blank=True, db_collation='C', db_default='', default='', help_text='Of its messages: a text, {key}, {topic} or {payload.name}.', verbose_name='key'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='key_path',
            field=models.TextField(db_default='', default='', editable=False, verbose_name='key path'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='max_attempts',
            field=models.IntegerField(db_default=5, default=5, verbose_name='max attempts'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='metadata',
            field=models.JSONField(blank=True, db_default={}, default=dict, verbose_name='metadata'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='name',
            field=models.TextField(db_collation='C', primary_key=True, serialize=False, verbose_name='name'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='ordered',
            field=models.BooleanField(db_default=False, default=False, help_text="Run them one by one, in the log's order.", verbose_name='ordered'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='params',
            field=models.JSONField(blank=True, db_default={}, default=dict, help_text='What the predicate knows as s.params.', verbose_name='params'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='path',
            field=models.TextField(db_default='', default='', editable=False, verbose_name='path'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='paused',
            field=models.BooleanField(db_default=False, default=False, help_text='It goes on where it was when it is resumed.', verbose_name='paused'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='position',
            field=models.BigIntegerField(editable=False, help_text='The last event that it was matched with, unless it follows.', verbose_name='position'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='predicate',
            field=models.TextField(blank=True, db_default='', default='', help_text="SQL over an event e and a subscription s: e.key = s.params ->> 'key'", verbose_name='predicate'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='priority',
            field=models.SmallIntegerField(db_default=0, default=0, verbose_name='priority'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='regex',
            field=models.TextField(db_default='', default='', editable=False, verbose_name='regex'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='seen_at',
            field=models.DateTimeField(editable=False, help_text='About when a worker last had it in its code.', null=True, verbose_name='seen at'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='split_by',
            field=models.TextField(blank=True, db_default='', default='', help_text='Batch only events that agree in this: {key}, {topic} or {payload.name}.', verbose_name='split by'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='split_path',
            field=models.TextField(db_default='', default='', editable=False, verbose_name='split path'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='superseded',
            field=pgqueue.models.fields.NamesField(db_default=[], default=list, editable=False, verbose_name='superseded'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='task',
            field=models.TextField(blank=True, db_default='', default='', help_text='The import path of the task. Empty: raw messages.', verbose_name='task'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='topics',
            field=pgqueue.models.fields.NamesField(blank=True, db_default=[], default=list, help_text='order.paid, order.*, order.**', verbose_name='topics'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='vars',
            field=models.JSONField(db_default={}, default=dict, editable=False, verbose_name='vars'),
        ),
        migrations.AlterField(
            model_name='subscription',
            name='where',
            field=models.JSONField(blank=True, db_default={}, default=dict, verbose_name='where'),
        ),
        migrations.AlterField(
            model_name='webhook',
            name='backoff',
            field=models.JSONField(blank=True, help_text='Seconds to wait after each failure: [10, 60, 3600], or {"base": 10, "cap": 3600}. Empty: as PGQUEUE says.', null=True, verbose_name='backoff'),
        ),
        migrations.AlterField(
            model_name='webhook',
            name='enabled',
            field=models.BooleanField(db_default=True, default=True, help_text='If not, nothing is posted; what happens meanwhile is skipped.', verbose_name='enabled'),
        ),
        migrations.AlterField(
            model_name='webhook',
            name='failing_since',
            field=models.DateTimeField(editable=False, null=True, verbose_name='failing since'),
        ),
        migrations.AlterField(
            model_name='webhook',
            name='failures',
            field=models.IntegerField(db_default=0, default=0, editable=False, help_text='Noted since the last success: at most one a second by each worker.', verbose_name='failures'),
        ),
        migrations.AlterField(
            model_name='webhook',
            name='gzip',
            field=models.BooleanField(db_default=True, default=True, help_text='Compress bodies of 1 KiB or more.', verbose_name='gzip'),
        ),
        migrations.AlterField(
            model_name='webhook',
            name='headers',
            field=models.JSONField(blank=True, db_default={}, default=dict, help_text='What is sent with each post.', verbose_name='headers'),
        ),
        migrations.AlterField(
            model_name='webhook',
            name='rotated',
            field=models.JSONField(db_default=[], default=list, editable=False, help_text='Secrets before this one, and until when posts are signed with them, too.', verbose_name='rotated'),
        ),
        migrations.AlterField(
            model_name='webhook',
            name='salt',
            field=models.UUIDField(default=uuid.uuid4, editable=False, help_text='A part of each webhook-id.', verbose_name='salt'),
        ),
        migrations.AlterField(
            model_name='webhook',
            name='secret',
            field=models.TextField(blank=True, default=pgqueue.options.webhook_options.new_secret, help_text='What posts are signed with: whsec_ and base64. Empty: a new one.', verbose_name='secret'),
        ),
        migrations.AlterField(
            model_name='webhook',
            name='serializer',
            field=models.TextField(blank=True, db_default='', default='', help_text='The import path of a function that makes the body.', verbose_name='serializer'),
        ),
        migrations.AlterField(
            model_name='webhook',
            name='timeout',
            field=models.DurationField(blank=True, help_text='How long a post may take. Empty: as PGQUEUE says.', null=True, verbose_name='timeout'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='channels',
            field=pgqueue.models.fields.NamesField(help_text='Null: every channel, also future ones.', null=True, verbose_name='channels'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='excluded',
            field=pgqueue.models.fields.NamesField(db_default=[], verbose_name='excluded'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='host',
            field=models.TextField(verbose_name='host'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='id',
            field=models.UUIDField(primary_key=True, serialize=False, verbose_name='ID'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='info',
            field=models.JSONField(db_default={}, help_text='What it runs: threads, version, …', verbose_name='info'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='last_seen',
            field=models.DateTimeField(verbose_name='last seen'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='notify_until',
            field=models.DateTimeField(help_text='Until then it is idle, and is notified of new messages.', null=True, verbose_name='notify until'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='pid',
            field=models.IntegerField(verbose_name='PID'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='started_at',
            field=models.DateTimeField(verbose_name='started at'),
        ),
    ])]
