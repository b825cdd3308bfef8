"""The settings that the host may set, each checked."""

from __future__ import annotations

from attrs import Attribute, field, frozen
from praval_tools_files.settings import Root, check_boolean, check_positive, check_positive_integer, check_unique_roots

from praval_tools_data.errors import DataSettingsError


def _check_memory_limit(_: object, __: Attribute[int], value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not (value == 0 or value >= 512):
        raise DataSettingsError("max_memory_mb", f"is {value!r}", "Set 512 or more, or 0 for no limit.")


@frozen(kw_only=True)
class DataSettings:
    """
    What the host may set in `[plugins."praval-tools-data".settings]`.

    Args:
        roots: The folders whose files the tools may read; plots are written where one is declared writable.
        approve_plots: Whether a person approves each plot; plots never replace a file.
        max_file_bytes: How large a file may be.
        max_rows: How many rows it may have.
        max_columns: How many columns it may have.
        max_result_rows: Rows of one result, at most.
        max_result_bytes: Size of one result as JSON, at most.
        max_value_chars: Length of one text in a result; longer ones are cut, and the result says how many.
        max_points: How many points a plot may have.
        max_memory_mb: Memory of the process that works on a file, in MiB; 0 where the system cannot limit it.
        timeout: Seconds of one call.
    """

    roots: tuple[Root, ...] = field(default=(), converter=tuple, validator=check_unique_roots)
    approve_plots: bool = field(default=False, validator=check_boolean)
    max_file_bytes: int = field(default=104_857_600, validator=check_positive_integer)
    max_rows: int = field(default=5_000_000, validator=check_positive_integer)
    max_columns: int = field(default=1_000, validator=check_positive_integer)
    max_result_rows: int = field(default=1_000, validator=check_positive_integer)
    max_result_bytes: int = field(default=1_000_000, validator=check_positive_integer)
    max_value_chars: int = field(default=10_000, validator=check_positive_integer)
    max_points: int = field(default=20_000, validator=check_positive_integer)
    max_memory_mb: int = field(default=4_096, validator=_check_memory_limit)
    timeout: float = field(default=60.0, validator=check_positive)
