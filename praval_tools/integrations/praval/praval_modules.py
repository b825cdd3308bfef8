"""Imports Praval's modules, or raises the error that says what to install."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, update_wrapper
from importlib import import_module
from typing import Any, Final, TypeAlias, TypeVar

from praval_tools.errors import MissingExtraError, UntestedVersionWarning, get_user_stacklevel

PravalObject: TypeAlias = Any
"""A module or an object of Praval's, whose interface has no types here."""

_Function = TypeVar("_Function", bound=Callable[..., object])

TESTED: Final = "0.8.4"
"""The version of Praval that the tests run against."""


def import_praval_module(name: str) -> PravalObject:
    """
    Return a module of Praval; another version than the tested one is warned of, once.

    Raises:
        MissingExtraError: Praval is not installed.
    """
    try:
        version = import_module("praval").__version__
    except ModuleNotFoundError as error:
        if error.name != "praval":
            raise
        raise MissingExtraError("praval_tools.integrations.praval", "praval") from error
    if version != TESTED:
        _warn_untested_version(version)
    return import_module(name)


def copy_names(original: Callable[..., object]) -> Callable[[_Function], _Function]:
    """Give a function the names of *original*, as `wraps` does, but not *original*: `inspect.unwrap` ends here."""

    def copy(function: _Function) -> _Function:
        update_wrapper(function, original)
        del function.__dict__["__wrapped__"]
        return function

    return copy


@cache
def _warn_untested_version(version: str) -> None:
    text = f"praval {version} is installed; praval_tools.integrations.praval is tested with {TESTED}."
    warnings.warn(text, UntestedVersionWarning, stacklevel=get_user_stacklevel())
