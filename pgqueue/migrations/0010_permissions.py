from django.db import migrations, router

INTERNAL = ["bell", "dedupe", "duty", "gate", "lane", "purged", "waiter"]


def delete_permissions(apps, schema_editor):
    """Delete the permissions of internal tables that earlier versions created."""
    try:
        permission = apps.get_model("auth", "Permission")
    except LookupError:
        return  # django.contrib.auth is not installed
    alias = schema_editor.connection.alias
    if router.allow_migrate_model(alias, permission):
        permission.objects.using(alias).filter(
            content_type__app_label="pgqueue", content_type__model__in=INTERNAL
        ).delete()


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0009_dead_since'),
    ]

    operations = [
        *(
            migrations.AlterModelOptions(name=name, options={'default_permissions': ()})
            for name in INTERNAL
            if name != "duty"
        ),
        migrations.AlterModelOptions(
            name='duty', options={'default_permissions': (), 'verbose_name_plural': 'duties'}
        ),
        migrations.RunPython(delete_permissions, migrations.RunPython.noop, elidable=True),
    ]
