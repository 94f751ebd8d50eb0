"""Indexes that migrations make beside the work."""

from typing import Any

from django.contrib.postgres import operations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


class AddIndexConcurrently(operations.AddIndexConcurrently):
    """Django's, which can be begun again: it runs outside a transaction, so a migration that was killed leaves its
    index, whole or invalid, and no note of it."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        name = schema_editor.quote_name(self.index.name)
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
        super().database_forwards(app_label, schema_editor, from_state, to_state)
