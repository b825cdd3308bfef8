"""A tool whose schema was supplied runs with what was judged, whatever else its function could take."""

# Tests of: tools/compiled, schema/supplied_schema, schema/validator

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_client_rig import OPERATOR, call, read_notes, register_plain

from praval_tools import Outcome, Tool, ToolCall, ToolContext, ToolDefinitionError, ToolRegistry

OPEN: dict[str, Any] = {"type": "object", "properties": {"memo": {"type": "string"}}}
"""It does not say what else may be given, so that anything may."""


def pay(context: ToolContext, memo: str = "", account: str = "everybody") -> str:
    """Pay."""
    return f"{context.agent} pays {account}"


def build_registry(function: Any, schema: dict[str, Any]) -> ToolRegistry:
    """Return a registry in which an agent has a tool with a supplied schema."""
    registry = ToolRegistry(journal="memory")
    registry.register_tool(Tool(name="pay", description="Pay.", parameters=schema, callable=function, owned_by="clerk"))
    return registry


class TestWhatIsBound:
    """What a program binds, or the library fills in, is nothing that a model gives."""

    @pytest.mark.parametrize("value", ["mine", None, 5, {"account": "mine"}])
    def test_no_model_gives_what_a_partial_binds(self, value: object) -> None:
        """An open schema let a model replace the account that the program had bound."""
        registry = build_registry(functools.partial(pay, account="savings"), OPEN)

        refused = registry.execute(ToolCall(None, "pay", {"memo": "x", "account": value}, "clerk"))
        as_text = registry.execute(ToolCall(None, "pay", json.dumps({"account": value}), "clerk"))

        assert (Outcome.INVALID_ARGUMENTS, Outcome.INVALID_ARGUMENTS) == (refused.outcome, as_text.outcome)
        assert "unknown parameter 'account'" in str(refused.error)
        assert "clerk pays savings" == registry.execute(ToolCall(None, "pay", {"memo": "x"}, "clerk")).result

    def test_unless_the_schema_names_it(self) -> None:
        """Who writes a schema with the name offers it: what was bound is the default then, as in Python."""
        schema = {**OPEN, "properties": {"account": {"type": "string"}}}
        registry = build_registry(functools.partial(pay, account="savings"), schema)

        assert "clerk pays mine" == registry.agent("clerk").call("pay", account="mine")
        assert "clerk pays savings" == registry.agent("clerk").call("pay")

    @pytest.mark.parametrize("value", [None, "boss", {"agent": "boss"}])
    def test_no_model_gives_a_context(self, value: object) -> None:
        """It was judged and recorded, and the function got another one."""
        registry = build_registry(pay, OPEN)

        result = registry.execute(ToolCall(None, "pay", {"context": value}, "clerk"))

        assert Outcome.INVALID_ARGUMENTS is result.outcome
        assert "clerk pays everybody" == registry.agent("clerk").call("pay")

    def test_a_schema_offers_no_context(self) -> None:
        """What a model would give for it could never arrive."""
        schema = {**OPEN, "properties": {"context": {"type": "object"}}}

        with pytest.raises(ToolDefinitionError, match="'context' is injected as the ToolContext"):
            build_registry(pay, schema)


TEXTS = st.sampled_from(["", "a", "x", "arguments", "name", "_meta", "self", "praval_tools_context", "\u2028", "\x00"])
NUMBERS = st.sampled_from([-0.0, 0.0, 1.0, 5e-324, 1.7976931348623157e308, 1e22, 0.1, 2**53 + 1, 2**64 + 1, 10**400])
VALUES = st.recursive(
    st.none() | st.booleans() | TEXTS | st.text(max_size=5) | NUMBERS | st.integers() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def write_exactly(value: object) -> object:
    """Return a JSON value in a form that is equal only where each number is of one kind and sign."""
    if isinstance(value, dict):
        return {name: write_exactly(item) for name, item in value.items()}
    if isinstance(value, list):
        return list(map(write_exactly, value))
    sign = math.copysign(1, value) if isinstance(value, float) else 0
    return type(value).__name__, value, sign


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ToolRegistry, Path]]:
    """A server that notes what it is sent, and has a tool with an open schema."""
    notes = tmp_path_factory.mktemp("wire") / "notes"
    properties = {"n": {"type": "integer"}, "d": {"default": {"é": [None, -0.0]}}}
    definition = {"inputSchema": {"type": "object", "properties": properties}}
    with pytest.MonkeyPatch.context() as patch, ToolRegistry() as registry:
        patch.setenv("MCP_DEFINITION", json.dumps(definition))
        register_plain(registry, "note arguments", notes, env=["MCP_DEFINITION"])
        yield registry, notes


class TestMcp:
    """A server gets the arguments that were judged: of the same kinds, with the same defaults, and no others."""

    @settings(deadline=None, max_examples=150)
    @given(arguments=st.dictionaries(TEXTS | st.just("n") | st.just("d"), VALUES, max_size=4), is_text=st.booleans())
    def test_gets_what_was_judged(
        self, server: tuple[ToolRegistry, Path], arguments: dict[str, object], is_text: bool
    ) -> None:
        """An argument named as the client's own context was judged and recorded, and never sent."""
        registry, notes = server
        before, judged = len(read_notes(notes)), list[dict[str, object]]()
        remove = registry.add_policy(lambda agent, tool, arguments: judged.append(arguments))

        given = json.dumps(arguments) if is_text else arguments
        result = registry.execute(ToolCall(None, "plain-work", given, OPERATOR))

        remove()
        sent = [json.loads(line) for line in read_notes(notes)[before:]]
        assert ([judged[-1]] if result.success else []) == sent
        assert write_exactly(judged[-1] if result.success else {}) == write_exactly(sent[0] if sent else {})
        if "praval_tools_context" in arguments:
            assert Outcome.INVALID_ARGUMENTS is result.outcome

    def test_takes_no_context(self, server: tuple[ToolRegistry, Path]) -> None:
        """The name of the client's own context is none of a foreign tool's."""
        assert Outcome.INVALID_ARGUMENTS is call(server[0], "plain-work", praval_tools_context={}).outcome
