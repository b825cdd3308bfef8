"""The hints of a function as they stand, and the names that they may use."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any

from praval_tools.schema.type_hints import UnresolvedHintError


def read_annotations(function: types.FunctionType) -> Mapping[str, Any]:
    """
    Return the hints of *function*, unresolved text as text.

    Raises:
        Unresolved: Python evaluates hints lazily (3.14) and one names something that does not exist yet.
    """
    try:
        return function.__annotations__
    except NameError as error:
        if sys.version_info < (3, 14):
            raise UnresolvedHintError(str(error)) from None
        import annotationlib

        return annotationlib.get_annotations(function, format=annotationlib.Format.FORWARDREF)


def collect_enclosing_names(
    function: types.FunctionType, namespace: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return the names that hints of *function* may use beside its globals; None where there are none."""
    cells = function.__closure__
    parameters = getattr(function, "__type_params__", ())
    if not cells and not parameters and namespace is None:
        return None
    near = dict(namespace or {})
    for name, cell in zip(function.__code__.co_freevars, cells or (), strict=True):
        try:
            near[name] = cell.cell_contents
        except ValueError:  # not filled yet: the function around is still running
            continue
    near.update({one.__name__: one for one in parameters})
    return near
