"""Make the tables of a project, and two tenants: `python -m tests.tenants.prepare`."""

from __future__ import annotations

import django

TENANTS = ("north", "south")


def main() -> None:
    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connection

    if hasattr(settings, "TENANT_MODEL"):
        from tests.tenants.customers.models import Customer

        call_command("migrate_schemas", schema_name="public", verbosity=0)
        for name in TENANTS:
            Customer.objects.create(schema_name=name, name=name)
        return
    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        for name in TENANTS:
            cursor.execute(
                f"CREATE SCHEMA {name}; CREATE TABLE {name}.notes_note "
                "(LIKE public.notes_note INCLUDING ALL)"
            )
        cursor.execute("DROP TABLE notes_note")


if __name__ == "__main__":
    main()
