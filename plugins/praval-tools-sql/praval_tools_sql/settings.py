"""The settings that the host may set, each checked."""

from __future__ import annotations

import os
from typing import Any

from attrs import Attribute, field, frozen

from praval_tools_sql.errors import SqlSettingsError

_HOW_TO_DECLARE_DATABASE = (
    'Declare one in praval_tools.toml: [plugins."praval-tools-sql".settings] with url_env = "DATABASE_URL", the name '
    'of a variable of the environment, or url = "sqlite:////srv/sales.db".'
)


def check_positive(_: object, attribute: Attribute[Any], value: float) -> None:
    """Refuse a limit that is not a positive number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise SqlSettingsError(f"The setting {attribute.name} is {value!r}", "Set a positive number.")


def check_positive_integer(instance: object, attribute: Attribute[Any], value: float) -> None:
    """Refuse a limit that is not a positive whole number."""
    check_positive(instance, attribute, value)
    if not isinstance(value, int):
        raise SqlSettingsError(f"The setting {attribute.name} is {value!r}", "Set a positive whole number.")


def check_boolean(_: object, attribute: Attribute[Any], value: bool) -> None:
    """Refuse what is neither true nor false; a text like "no" would count as true."""
    if not isinstance(value, bool):
        raise SqlSettingsError(f"The setting {attribute.name} is {value!r}", "Set true or false.")


def _check_memory_limit(_: object, __: Attribute[int], value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not (value == 0 or value >= 128):
        raise SqlSettingsError(f"The setting max_memory_mb is {value!r}", "Set 128 or more, or 0 for no limit.")


@frozen(kw_only=True)
class SqlSettings:
    """
    What the host may set in `[plugins."praval-tools-sql".settings]`.

    Args:
        url: SQLAlchemy URL of the database; where it holds a password, better give `url_env`.
        url_env: Name of the variable of the environment that holds the URL; read at each call.
        write: Whether there is a tool that writes; each of its calls needs approval in any case.
        allow_superuser: Whether a PostgreSQL role may be used that read-only transactions do not hold back.
        max_rows: Rows of one result, at most.
        max_result_bytes: Size of one result as JSON, at most.
        max_value_chars: Length of one text in a result; longer ones are cut, and the result says how many.
        max_memory_mb: Memory of the process that runs a statement, in MiB; 0 where the system cannot limit it.
        timeout: Seconds of one statement.
    """

    url: str = field(default="", repr=False)
    url_env: str = ""
    write: bool = field(default=True, validator=check_boolean)
    allow_superuser: bool = field(default=False, validator=check_boolean)
    max_rows: int = field(default=1_000, validator=check_positive_integer)
    max_result_bytes: int = field(default=1_000_000, validator=check_positive_integer)
    max_value_chars: int = field(default=10_000, validator=check_positive_integer)
    max_memory_mb: int = field(default=512, validator=_check_memory_limit)
    timeout: float = field(default=10.0, validator=check_positive)

    def __attrs_post_init__(self) -> None:
        if self.url and self.url_env:
            raise SqlSettingsError("Both url and url_env are set", "Set one of them.")

    def get_database_url(self) -> str:
        """
        Return the URL of the database.

        Raises:
            SqlSettingsError: None is declared; the text says how to.
        """
        if not self.url and not self.url_env:
            raise SqlSettingsError("No database is declared", _HOW_TO_DECLARE_DATABASE)
        url = self.url or os.environ.get(self.url_env, "")
        if not url:
            fix = "Set it to a URL as SQLAlchemy takes it, or set url."
            raise SqlSettingsError(f"The variable {self.url_env!r} of the environment is not set", fix)
        return url
