"""
Makes and caches the functions that convert JSON to Python values of a type hint, with limits of depth.

The hooks themselves stand in the type handlers: `scalars`, `containers`, `data_classes`, `wrappers`. The guards stop
values that are nested too deeply, and unions that would convert a value again and again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

from praval_tools.forks import first_use_property
from praval_tools.names import get_plain_type
from praval_tools.schema.hook_dispatch import HookDispatcher
from praval_tools.schema.json_values import SCALAR_TYPES, check_json
from praval_tools.schema.type_handler import DecodeHook, Mismatch
from praval_tools.schema.type_hints import Hint
from praval_tools.schema.type_lookup import get_type_handler, has_only_builtin_types

ValueConverter: TypeAlias = Callable[[Any], Any]
"""Decodes one JSON value, or raises `Mismatch`; or encodes one Python value, or raises `Unencodable`."""


class DecodeHooks:
    """
    Makes decode hooks; one per tool, because it remembers the classes that it has handled.

    Args:
        exact: Values must come in their own JSON type; an integer is not a float.
        reads_results: The values are recorded results, whose numbers stay as they were returned.
        shared: It is shared by all tools, for hints of Python's own types.
    """

    def __init__(self, *, exact: bool = False, reads_results: bool = False, shared: bool = False) -> None:
        self.exact, self.reads_results, self._shared = exact, reads_results, shared

    @first_use_property
    def _dispatcher(self) -> HookDispatcher[DecodeHook]:
        return HookDispatcher("structure", lambda hint: get_type_handler(hint).make_decode_hook(hint, self))

    @first_use_property
    def _exact_decoder(self) -> DecodeHooks:
        return self if self.exact else DecodeHooks(exact=True, reads_results=self.reads_results, shared=self._shared)

    def get_hook(self, hint: Hint) -> DecodeHook:
        """Return the hook of *hint*."""
        if not self._shared and has_only_builtin_types(hint):
            return _get_shared_decoder(self.exact, self.reads_results).get_hook(hint)
        return self._dispatcher.get_hook(hint)

    def get_exact_hook(self, hint: Hint) -> DecodeHook:
        """Return the hook of *hint* that does not widen."""
        return self._exact_decoder.get_hook(hint)


def with_recursion_guard(hook: DecodeHook) -> ValueConverter:
    """Return *hook* as a function of one value that raises `Mismatch` where the value is nested too deeply."""

    def decode(value: object) -> Any:
        try:
            return hook(value, None)
        except RecursionError:
            raise Mismatch("is nested too deeply") from None

    return decode


class _UnionResults(threading.local):
    current: dict[tuple[int, int], tuple[object, type[Mismatch] | None, Any]] | None = None
    """By union and value: the value, which stays alive so that its id is its own, the error's class, the outcome."""


_union_results: Final = _UnionResults()


def with_union_results(decode: ValueConverter) -> ValueConverter:
    """
    Return *decode* for a hint that may contain itself: each union in it decodes, or encodes, each value once.

    A member that fails after its inner values were converted would otherwise have them converted again by the next
    one, at every level: twice as often for each level.
    """

    def decode_once(value: object) -> Any:
        outer, _union_results.current = _union_results.current, {}
        try:
            return decode(value)
        finally:
            _union_results.current = outer

    return decode_once


def remember_union_results(convert: ValueConverter) -> DecodeHook:
    """Return the hook of a union, which remembers what all but scalars became while one value is converted."""

    def convert_or_recall(value: object, _: object = None) -> Any:
        results = _union_results.current
        if results is None or get_plain_type(value) in SCALAR_TYPES:
            return convert(value)
        key = id(convert), id(value)
        if key not in results:
            try:
                results[key] = value, None, convert(value)
            except Mismatch as error:
                results[key] = value, type(error), (error.reason, *error.steps)
        _, error_class, outcome = results[key]
        if error_class is not None:
            raise error_class(*outcome)
        return outcome

    return convert_or_recall


def with_depth_check(decode: ValueConverter) -> ValueConverter:
    """Return *decode* for a hint that may contain itself: the depth of a value is checked first."""

    def decode_checked(value: object) -> Any:
        check_json(value)
        return decode(value)

    return decode_checked


@cache
def _get_shared_decoder(exact: bool, reads_results: bool) -> DecodeHooks:
    return DecodeHooks(exact=exact, reads_results=reads_results, shared=True)
