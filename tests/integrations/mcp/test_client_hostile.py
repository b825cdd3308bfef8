"""A server that breaks the rules costs its own tools, and never the process."""

# Tests of: definitions, dispatcher, foreign_text

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from mcp_client_rig import SUPPORT, call, read_notes, register_plain, wait_until

from praval_tools import Outcome, ToolRegistry
from praval_tools.integrations.foreign_text import clean_schema, clean_text, repair_name
from praval_tools.integrations.mcp.client import McpServerError, dispatcher
from praval_tools.integrations.mcp.client.session import ServerSettings


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """A registry."""
    with ToolRegistry() as registry:
        yield registry


class TestConnecting:
    @pytest.mark.parametrize(
        ("behaviour", "text"),
        [
            ("silent", "it did not answer within 2 s"),
            ("silent listing", "it did not answer within 2 s"),
            ("dies at once", "ended with exit code 3, and said: ModuleNotFoundError: no weather today"),
            ("endless line at the start", "it sent a message of more than 1,000,000 bytes"),
            ("junk", "lines that are no messages of the protocol"),
            ("no listing", "I would rather not"),
        ],
    )
    def test_one_that_does_not_speak_the_protocol_is_refused(
        self, registry: ToolRegistry, behaviour: str, text: str, tmp_path: Path
    ) -> None:
        """The error says what it did instead; nothing is registered, and its process is gone."""
        with pytest.raises(McpServerError, match=f"^MCP server 'plain': .*{text}"):
            register_plain(registry, behaviour, tmp_path / "notes", connect_timeout=2, max_message_bytes=1_000_000)

        assert ([], []) == (registry.list_all_tools(), registry.problems())

    @pytest.mark.parametrize("behaviour", ["some junk", "deep json"])
    def test_stray_lines_are_skipped(self, registry: ToolRegistry, behaviour: str, tmp_path: Path) -> None:
        """A greeting on standard output, wrong JSON and JSON without an end of brackets cost nothing."""
        register_plain(registry, behaviour, tmp_path / "notes")

        assert "done 1" == call(registry, "plain-work", x=1).result


class TestListings:
    def test_names_are_legal_or_refused(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """A printable name is made legal; escapes, directions, halves of characters, and doubles are left out."""
        source = register_plain(registry, "names", tmp_path / "notes")
        problems = "\n".join(str(problem) for problem in source.list_problems())

        assert ["work", "with_slash", "with_space", "-", "9lives"] == [name[6:] for name in source.tools]
        assert problems.isascii() and "\x1b" not in problems
        for name in (
            "esc\\x1b[31mape",
            "b\\u202eidi",
            "half\\ufffd",
            "nnn",
            "With_Slash",
            "\\xfcmlaut",
            "listed twice",
        ):
            assert name in problems
        kinds = {problem.kind for problem in registry.problems() if problem.subject == "plain-with_slash"}
        assert {"renamed"} == kinds - {"no-owner", "unreachable"}

    def test_texts_are_cleaned(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """Escapes, marks of direction and invisible characters are taken out of what models and people read."""
        source = register_plain(registry, "texts", tmp_path / "notes")
        work, deep = registry.get_tool("plain-work"), registry.get_tool("plain-deep")

        assert work is not None and deep is not None
        assert ("red[31mevil half\ufffd ok\nline", "ab") == (work.description, work.metadata.title)
        assert "q[2J" == deep.parameters["properties"]["x"]["description"]
        assert "control characters" in str(source.list_problems()[0])

    def test_a_definition_that_cannot_be_used_costs_its_own_tool(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """Each tool whose schema cannot be checked is left out with the reason; the others work."""
        source = register_plain(registry, "schemas", tmp_path / "notes")
        problems = "\n".join(str(problem) for problem in source.list_problems())

        assert ["plain-work", "plain-output"] == source.tools
        for name in ("no-schema", "array", "remote", "dangling", "wrong", "pattern", "taken", "text", "deep", "hints"):
            assert f"Tool {name!r} is left out" in problems
        assert "it is never fetched" in problems
        assert "'plain-output': its outputSchema is left out" in problems
        assert "done 1" == call(registry, "plain-work", x=1).result

    @pytest.mark.parametrize(
        ("behaviour", "tools"), [("endless pages", 1_000), ("same cursor", 2), ("listing of no tools", 0)]
    )
    def test_a_listing_without_end_ends(
        self, registry: ToolRegistry, behaviour: str, tools: int, tmp_path: Path
    ) -> None:
        """Pages that never end are read up to a limit, and that is reported."""
        source = register_plain(registry, behaviour, tmp_path / "notes")

        assert tools == len(source.tools)
        assert bool(tools) is any("has no end" in str(problem) for problem in source.list_problems())

    def test_a_large_listing_is_cut(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """No more tools are taken than the limit says; the rest is reported."""
        source = register_plain(registry, "many", tmp_path / "notes", max_tools=100, connect_timeout=60)

        assert 100 == len(source.tools)
        assert any("more tools than are taken" in str(problem) for problem in source.list_problems())

    def test_memory_is_bounded(self, tmp_path: Path) -> None:
        """100,000 tools on one page, and 15 MB of definitions, cost less than 400 MB above an idle registry."""
        script = f"""
import sys, resource
sys.path.insert(0, {str(SUPPORT)!r})
from mcp_client_rig import *
notes, before = Path({str(tmp_path / "notes")!r}), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with ToolRegistry() as registry:
    register_plain(registry, "many", notes, max_tools=1000, connect_timeout=90)
    register_plain(registry, "large answer", notes, namespace="large")
    for number in range(20):
        assert len(call(registry, "large-work", x=number).result) == 3_000_000
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert grown < 400 * 1024, f"{{grown}} KiB"
"""
        done = subprocess.run([sys.executable, "-c", script], timeout=200, capture_output=True, text=True)

        assert (0, "") == (done.returncode, done.stderr)

    def test_a_flood_of_changes_is_listed_now_and_then(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """A server that announces a change after each listing is not asked without a pause, and calls go on."""
        notes = tmp_path / "notes"
        register_plain(registry, "flood of changes", notes)
        wait_until(lambda: read_notes(notes).count("listed") > 3)

        assert "done 1" == call(registry, "plain-work", x=1).result
        assert read_notes(notes).count("listed") < 50


class TestAnswers:
    @pytest.mark.parametrize(
        ("behaviour", "outcome", "text"),
        [
            ("malformed answer", Outcome.IN_DOUBT, "1 error in its answer"),
            ("deep answer", Outcome.IN_DOUBT, "nested more than 64 levels deep"),
            ("endless line", Outcome.IN_DOUBT, "it sent a message of more than 1,000,000 bytes"),
            ("parts without end", Outcome.IN_DOUBT, "more than 10,000 parts"),
            ("requests without end", Outcome.IN_DOUBT, "it sent 1,001 requests and takes no answers"),
            ("wrong base64", Outcome.TOOL_ERROR, "data that is not valid base64"),
            ("refuse", Outcome.TOOL_ERROR, "not [31mtoday"),
        ],
    )
    def test_an_answer_that_cannot_be_used_is_the_outcome(
        self, registry: ToolRegistry, behaviour: str, outcome: Outcome, text: str, tmp_path: Path
    ) -> None:
        """What cannot be read says nothing of the effect; what the server says itself is an error of its tool."""
        register_plain(registry, behaviour, tmp_path / "notes", max_message_bytes=1_000_000)
        result = call(registry, "plain-work", x=1)

        assert (outcome, True) == (result.outcome, text in (result.error or "")), result.error

    def test_a_large_answer_holds_up_no_other_server(
        self, registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """While an answer of millions of values is checked for seconds, calls of other servers are answered."""
        register_plain(registry, "many values", tmp_path / "notes", timeout=120)
        register_plain(registry, "normal", tmp_path / "notes", namespace="other", timeout=20)
        meanwhile, check = list[Outcome](), dispatcher.iter_json_problems

        def check_after_a_call(raw: Any) -> Iterator[Any]:
            if not meanwhile and raw.get("structuredContent", {}).get("values"):
                meanwhile.append(Outcome.IN_DOUBT)
                meanwhile[0] = call(registry, "other-work", x=1).outcome
            return check(raw)

        monkeypatch.setattr(dispatcher, "iter_json_problems", check_after_a_call)
        result = call(registry, "plain-work", x=1)

        assert (Outcome.IN_DOUBT, [Outcome.OK]) == (result.outcome, meanwhile)

    def test_a_result_that_breaks_its_promise_is_an_error(
        self, registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Structured content is checked against `outputSchema`, by patterns that take linear time."""
        schema = {"type": "object", "properties": {"n": {"type": "string", "pattern": "^(a+)+$"}}, "required": ["n"]}
        monkeypatch.setenv("MCP_DEFINITION", json.dumps({"outputSchema": schema}))
        register_plain(registry, "wrong structure", tmp_path / "notes", env=["MCP_DEFINITION"])
        result = call(registry, "plain-work", x=1)

        assert Outcome.TOOL_ERROR is result.outcome
        assert "does not fit the outputSchema of its tool, by its $.properties.n.pattern" in (result.error or "")

    @pytest.mark.parametrize(
        "schema",
        [
            {"properties": {"n": {"type": "integer", "writeOnly": True}}},
            {"properties": {"n": {"format": "password", "maxLength": 3}}},
            {"properties": {"n": {"anyOf": [{"type": "integer"}, {"enum": ["x"]}], "writeOnly": True}}},
            {"additionalProperties": {"type": "integer"}, "writeOnly": True},
            {"additionalProperties": False},
            {"propertyNames": {"pattern": "^x"}, "writeOnly": True},
        ],
    )
    def test_the_error_for_a_result_does_not_quote_it(
        self, schema: dict[str, Any], registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Broken promise: what did not fit an `outputSchema` that marks it stood in the recorded error."""
        monkeypatch.setenv("MCP_DEFINITION", json.dumps({"outputSchema": {"type": "object", **schema}}))
        register_plain(registry, "wrong structure", tmp_path / "notes", env=["MCP_DEFINITION"])
        result = call(registry, "plain-work", x=1)

        assert "does not fit the outputSchema" in (result.error or "")
        assert "many" not in (result.error or "") and "['n']" not in (result.error or "")

    def test_half_a_character_is_replaced(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """A text with half of a surrogate pair costs that character, not the answer."""
        register_plain(registry, "surrogates", tmp_path / "notes")

        assert "half \ufffd" == call(registry, "plain-work", x=1).result

    def test_a_server_that_never_answers_runs_out_of_time(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """Its call ends at the time-out of its tool, and others go on."""
        register_plain(registry, "never answer", tmp_path / "notes", timeout=0.5)
        register_plain(registry, "normal", tmp_path / "notes", namespace="other")
        results = [call(registry, tool, x=1) for tool in ("plain-work", "other-work")]

        assert [Outcome.TIMEOUT, Outcome.OK] == [result.outcome for result in results]

    def test_bounds_need_not_be_set(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """Without options a message has 16 MiB, a listing 10,000 tools, and a server 30 seconds to list them."""
        register_plain(registry, "too large answer", tmp_path / "notes")
        result = call(registry, "plain-work", x=1)
        defaults = {field.name: field.default for field in attrs.fields(ServerSettings)}

        assert (Outcome.IN_DOUBT, True) == (result.outcome, "more than 16,777,216 bytes" in (result.error or ""))
        assert (10_000, 30.0) == (defaults["max_tools"], defaults["connect_timeout"])


class TestTexts:
    def test_names(self) -> None:
        """Legal names stay, printable ones are repaired, and all others are none."""
        assert ["a.b-c_9", "a_b", None, None, None, None] == [
            repair_name(name) for name in ("a.b-c_9", "/a b!", "", "é", "a\n", "//")
        ]

    def test_texts(self) -> None:
        """Line breaks, tabs and the joiners of scripts and emoji stay; what steers terminals and readers goes."""
        assert "a\n\tb é 👩\u200d🚀" == clean_text("a\n\tb é 👩\u200d🚀")
        assert "[0mabc" == clean_text("\x1b[0ma\u2066b\u2069\ufeffc\x00\u2028")
        assert "pay ⚠\ufe0f" == clean_text("p\ufe01a\u034f\u3164y\U000e0101 ⚠\ufe0f")

    def test_schemas_keep_their_values(self) -> None:
        """Only titles and descriptions change: what values are compared with is as the server says it."""
        schema = {
            "properties": {"description": {"description": "x\x07", "enum": ["a\u202e"]}},
            "anyOf": [{"title": "t\x07"}], "description": "d\u202e",
        }  # fmt: skip

        assert {
            "properties": {"description": {"description": "x", "enum": ["a\u202e"]}},
            "anyOf": [{"title": "t"}], "description": "d",
        } == clean_schema(schema)  # fmt: skip
