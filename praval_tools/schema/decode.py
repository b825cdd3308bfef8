"""JSON values → Python values, strictly: nothing is converted that is not of the right JSON type."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

from praval_tools.schema.hook_dispatch import HookDispatcher
from praval_tools.schema.json_values import check_json
from praval_tools.schema.type_handler import DecodeHook, Mismatch
from praval_tools.schema.type_hints import Hint
from praval_tools.schema.type_lookup import get_type_handler, has_only_builtin_types


class Decoder:
    """
    Makes decode hooks; one per tool, because it remembers the classes that it has handled.

    Args:
        exact: Values must come in their own JSON type; an integer is not a float.
        shared: It is shared by all tools, for hints of Python's own types.
    """

    def __init__(self, *, exact: bool = False, shared: bool = False) -> None:
        self.exact, self._shared = exact, shared

    @cached_property
    def _dispatcher(self) -> HookDispatcher[DecodeHook]:
        return HookDispatcher("structure", lambda hint: get_type_handler(hint).make_decode_hook(hint, self))

    @cached_property
    def _exact_decoder(self) -> Decoder:
        return self if self.exact else Decoder(exact=True, shared=self._shared)

    def get_hook(self, hint: Hint) -> DecodeHook:
        """Return the hook of *hint*."""
        if not self._shared and has_only_builtin_types(hint):
            return _get_shared_decoder(self.exact).get_hook(hint)
        return self._dispatcher.get_hook(hint)

    def get_exact_hook(self, hint: Hint) -> DecodeHook:
        """Return the hook of *hint* that does not widen."""
        return self._exact_decoder.get_hook(hint)


def with_recursion_guard(hook: DecodeHook) -> Callable[[Any], Any]:
    """Return *hook* as a function of one value that raises `Mismatch` where the value is nested too deeply."""

    def decode(value: object) -> Any:
        try:
            return hook(value, None)
        except RecursionError:
            raise Mismatch("is nested too deeply") from None

    return decode


def with_depth_check(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return *decode* for a hint that may contain itself: the depth of a value is checked first."""

    def decode_checked(value: object) -> Any:
        check_json(value)
        return decode(value)

    return decode_checked


@cache
def _get_shared_decoder(exact: bool) -> Decoder:
    return Decoder(exact=exact, shared=True)
