"""What the package offers by name: there from the start, whenever it is imported."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module

import pytest
from source_tree import ROOT

import praval_tools
from praval_tools.schema.type_hints import is_path_type


def _printed(program: str) -> str:
    """Return what *program* prints in an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    ).stdout


class TestNames:
    def test_each_can_be_had_first(self) -> None:
        """
        Each public name can be asked for before any other, also those that are imported when somebody asks.
        """
        assert all(getattr(praval_tools, name) is not None for name in praval_tools.__all__)
        later = sorted(praval_tools._LAZY_NAMES)
        for name in later:
            assert name in _printed(f"from praval_tools import {name}; print({name!r})")

    def test_all_are_listed(self) -> None:
        """
        Interactive shells complete them from the first moment.
        """
        listed = _printed("import praval_tools; print(set(praval_tools.__all__) - set(dir(praval_tools)))")
        assert "set()" == listed.strip()

    def test_a_path_is_known_without_its_module(self) -> None:
        """
        A parameter that is a path stays one, whatever becomes of `sys.modules`.
        """
        program = """
import sys
from pathlib import Path
import praval_tools
sys.modules.pop("pathlib")
from praval_tools.schema.type_hints import is_path_type
class Mine(type(Path())): pass
print(*map(is_path_type, (Path, Mine, str, list[int])))
"""
        assert "True True False False" == _printed(program).strip()
        assert not is_path_type(type("PurePath", (), {}))


# ruff: noqa: E501
DOCUMENTED = {
    "praval_tools": (
        "AccessWarning Agent AgentProfile Allow ApprovalRequest Ask AsyncTool Block BoundTool ConfigError ConfigProblem "
        "Content Decision Deny DiscoveryError DuplicateAgentError DuplicateToolError Grant GrantError InvalidNameError "
        "JournalError JournalWarning MissingExtraError ModelError NotOwnerError Outcome PluginError PluginLoadError "
        "PluginReport PluginWarning Problem RegistryClosedError RegistryProblem Repair ReplayMismatchError "
        "RetryableToolError RunBusyError Secret SubscriberWarning Tool ToolAccessError ToolApprovalError "
        "ToolArgumentsError ToolCall ToolCallError ToolCollection ToolContext ToolDefinition ToolDefinitionError "
        "ToolDefinitionWarning ToolError ToolExecutionError ToolInDoubtError ToolLimitedError ToolMetadata ToolRegistry "
        "ToolResult ToolTimeoutError ToolUsageError ToolValidationError Toolset Tried UnknownAgentError "
        "UnknownFormatError UnknownGrantError UnknownToolCallError UnknownToolError UnknownToolWarning UnusedCallsError "
        "agent autoload compare current_agent current_call discover_tools get_global_registry get_tool_registry hookimpl "
        "hookspec load_plugins normalize_name plugin_reports reset_tool_registry tool use_registry"
    ),
    "praval_tools.cli": "main",
    "praval_tools.compat.praval": (
        "Tool ToolCollection ToolError ToolMetadata ToolRegistry discover_tools get_tool_info get_tool_registry is_tool "
        "list_tools register_tool_with_agent reset_tool_registry tool unregister_tool_from_agent"
    ),
    "praval_tools.config.plugins": "PluginTable",
    "praval_tools.errors": "ToolError ConfigError Problem ToolAccessError ToolExecutionError ToolTimeoutError",
    "praval_tools.formats": (
        "FORMATS REASON Format Offer assistant_message export format_of offered parse_tool_calls result_message "
        "result_messages strict_schema"
    ),
    "praval_tools.integrations.mcp": "AgentToken McpSource Tokens http_app open_tokens server",
    "praval_tools.integrations.langchain": "ToolAccess import_tools tools_for",
    "praval_tools.integrations.openai_agents": "RegistryAgent tools_for",
    "praval_tools.integrations.opentelemetry": "Telemetry TelemetryWarning",
    "praval_tools.integrations.pydantic_ai": "AgentToolset function_toolset",
    "praval_tools.integrations.praval": (
        "TESTED Attachment Installation Migration Moved attach install migrate uninstall"
    ),
    "praval_tools.journal": (
        "INTENT AgentToolCall AgentToolResult Answer CallRefused EventType Item Journal JournalEntry Lease MemoryStore "
        "Record RecordedCall RunInfo StateRow StateView Status Store Uses open_journal open_store"
    ),
    "praval_tools.journal.events": (
        "AgentToolCall AgentToolResult ApprovalAnswered ApprovalAsked CallRefused CallRerun EventType LateResult"
    ),
    "praval_tools.journal.stats": "UsageStats",
    "praval_tools.loop": (
        "AnthropicMessages CallsEnded LoopEnded LoopEvent LoopResult Model ModelAnswered ModelReply ModelRequest "
        "ModelRetried OpenAIChat OpenAIResponses StopReason TextPiece ToolLoop"
    ),
    "praval_tools.registry.call_controls": "RegistryApprovals RegistryLimits",
    "praval_tools.testing": "FakeModel arguments_for assert_can_call assert_cannot_call fake_model",
    "praval_tools.testing.plugin": "agent_factory fake_model tool_registry",
}
"""What the documentation of release 0.1 imports or shows, by module."""


class TestDocumentedPaths:
    @pytest.mark.parametrize("module", DOCUMENTED)
    def test_each_can_be_imported(self, module: str) -> None:
        """Programs written against release 0.1 go on: every documented name is where it was."""
        imported = import_module(module)

        assert [] == [name for name in DOCUMENTED[module].split() if not hasattr(imported, name)]

    def test_the_lists_of_public_names_are_whole(self) -> None:
        """No `__all__` lost a name since release 0.1."""
        for module, names in DOCUMENTED.items():
            listed = getattr(import_module(module), "__all__", None)
            if listed is not None:
                assert set() == set(names.split()) - set(listed), module

    def test_a_name_that_is_gone_is_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The check fails where a documented name is missing."""
        monkeypatch.delattr("praval_tools.loop.ToolLoop")
        with pytest.raises(AssertionError):
            self.test_each_can_be_imported("praval_tools.loop")

    def test_what_the_docs_import_is_listed(self) -> None:
        """Each module that a page imports from is among those that are kept."""
        imported = {
            module
            for page in [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
            for module in re.findall(
                r"^(?:from|import) (praval_tools(?:\.\w+)*)\b", page.read_text("utf-8"), re.MULTILINE
            )
        }

        assert set() == imported - set(DOCUMENTED)
