"""A migration step written as SQL for each dialect, where keys and partitions have to be exact."""

from collections.abc import Mapping, Sequence
from typing import Final

from tortoise.exceptions import OperationalError
from tortoise.migrations.operations import TortoiseOperation
from tortoise.migrations.schema_editor.base import BaseSchemaEditor
from tortoise.migrations.schema_generator.state import State

from app.store.database import mysql_code

_KEY_IS_THERE: Final = 1061


class DialectSQL(TortoiseOperation):
    """Runs `statements[dialect]`, dialect being `mysql` (MariaDB too) or `sqlite`.

    Statements must be re-runnable: MySQL commits DDL at once, so a migration that was killed
    half-way starts again from its first statement. For tables there is IF NOT EXISTS; a key that
    is there already counts as added, since MySQL knows no such clause for keys.
    """

    reversible = False

    def __init__(self, statements: Mapping[str, Sequence[str]]) -> None:
        self._statements = statements

    def describe(self) -> str:
        return "Run SQL of the dialect"

    async def database_forward(
        self,
        app_label: str,
        old_state: State,
        new_state: State,
        state_editor: BaseSchemaEditor | None = None,
    ) -> None:
        if state_editor is None:
            return
        for statement in self._statements[state_editor.client.capabilities.dialect]:
            try:
                await state_editor._run_sql(statement)
            except OperationalError as error:
                if mysql_code(error) != _KEY_IS_THERE:
                    raise
