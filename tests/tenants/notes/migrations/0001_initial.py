from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel(
            "Note",
            [
                ("id", models.BigAutoField(primary_key=True)),
                ("text", models.TextField()),
                ("schema", models.TextField()),
                ("session", models.IntegerField()),
            ],
        )
    ]
