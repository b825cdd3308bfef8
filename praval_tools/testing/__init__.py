"""
Helpers for tests of programs that use praval_tools: assertions, a fake model, Hypothesis strategies, fixtures.

The pytest plugin brings the fixtures `tool_registry`, `agent_factory` and `fake_model`. `arguments_for` needs
Hypothesis, which is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from praval_tools.errors import MissingExtraError

if TYPE_CHECKING:
    from praval_tools.testing.assertions import assert_can_call, assert_cannot_call
    from praval_tools.testing.models import FakeModel, fake_model
    from praval_tools.testing.strategies import arguments_for

__all__ = ["FakeModel", "arguments_for", "assert_can_call", "assert_cannot_call", "fake_model"]


def __getattr__(name: str) -> Any:
    if name in ("assert_can_call", "assert_cannot_call"):
        from praval_tools.testing import assertions

        return getattr(assertions, name)
    if name in ("FakeModel", "fake_model"):
        from praval_tools.testing import models

        return getattr(models, name)
    if name == "arguments_for":
        try:
            from praval_tools.testing.strategies import arguments_for
        except ModuleNotFoundError as error:
            if error.name != "hypothesis":
                raise
            raise MissingExtraError(name, "testing") from error
        return arguments_for
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
