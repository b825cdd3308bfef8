"""The tool-ownership layer for multi-agent Python."""

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from praval_tools.access.permissions import Grant
from praval_tools.access.problems import RegistryProblem
from praval_tools.access.records import AgentProfile, Block, Principal
from praval_tools.errors import (
    AccessWarning,
    ConfigError,
    ConfigProblem,
    DiscoveryError,
    DuplicateAgentError,
    DuplicateToolError,
    GrantError,
    InvalidNameError,
    JournalError,
    JournalWarning,
    MissingExtraError,
    ModelError,
    NotOwnerError,
    PluginError,
    PluginLoadError,
    PluginWarning,
    Problem,
    RegistryClosedError,
    ReplayMismatchError,
    RetryableToolError,
    RunBusyError,
    SubscriberWarning,
    ToolAccessError,
    ToolApprovalError,
    ToolArgumentsError,
    ToolCallError,
    ToolDefinitionError,
    ToolDefinitionWarning,
    ToolError,
    ToolExecutionError,
    ToolInDoubtError,
    ToolLimitedError,
    ToolTimeoutError,
    ToolUsageError,
    ToolValidationError,
    UnknownAgentError,
    UnknownFormatError,
    UnknownGrantError,
    UnknownToolCallError,
    UnknownToolError,
    UnknownToolWarning,
    UnusedCallsError,
)
from praval_tools.execution.context import current_call
from praval_tools.execution.engines.selection import set_remote_submitter
from praval_tools.names import normalize_name
from praval_tools.registry.agents import Agent
from praval_tools.registry.bound_tool import BoundTool
from praval_tools.registry.decorators import agent, current_agent, tool
from praval_tools.registry.default import (
    get_global_registry,
    get_tool_registry,
    reset_tool_registry,
    set_plugin_loader,
    use_registry,
)
from praval_tools.registry.from_files import set_configuration_loaders
from praval_tools.registry.mcp_servers import set_mcp_connector
from praval_tools.registry.openapi_services import set_openapi_preparer
from praval_tools.registry.registry import ToolRegistry
from praval_tools.registry.telemetry import set_telemetry_maker
from praval_tools.registry.toolset import Toolset
from praval_tools.schema.coercion import Repair
from praval_tools.schema.type_hints import Secret
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.compatibility import compare
from praval_tools.tools.content import Content
from praval_tools.tools.context import ToolContext
from praval_tools.tools.decision import Allow, ApprovalRequest, Ask, Decision, Deny, Tried
from praval_tools.tools.implementation import ToolDefinition
from praval_tools.tools.metadata import ToolMetadata
from praval_tools.tools.reports import ToolLog, ToolProgress
from praval_tools.tools.tool import AsyncTool, Tool

if TYPE_CHECKING:
    from praval_tools.plugins.hookspecs import hookimpl, hookspec
    from praval_tools.plugins.loader import autoload, load_plugins, plugin_reports
    from praval_tools.plugins.report import PluginReport
    from praval_tools.registry.collection import ToolCollection
    from praval_tools.registry.discovery import discover_tools
    from praval_tools.runs.run import Run

__version__ = "0.1.0"

__all__ = [
    "AccessWarning", "Agent", "AgentProfile", "Allow", "ApprovalRequest", "Ask", "AsyncTool", "Block", "BoundTool",
    "ConfigError", "ConfigProblem", "Content", "Decision", "Deny", "DiscoveryError", "DuplicateAgentError",
    "DuplicateToolError", "Grant", "GrantError", "InvalidNameError", "JournalError", "JournalWarning",
    "MissingExtraError", "ModelError", "NotOwnerError", "Outcome", "PluginError", "PluginLoadError", "PluginReport",
    "PluginWarning", "Principal", "Problem", "RegistryClosedError", "RegistryProblem", "Repair", "ReplayMismatchError",
    "RetryableToolError", "Run", "RunBusyError", "Secret", "SubscriberWarning", "Tool", "ToolAccessError",
    "ToolApprovalError", "ToolArgumentsError", "ToolCall", "ToolCallError", "ToolCollection", "ToolContext",
    "ToolDefinition", "ToolDefinitionError", "ToolDefinitionWarning", "ToolError", "ToolExecutionError",
    "ToolInDoubtError", "ToolLimitedError", "ToolLog", "ToolMetadata", "ToolProgress", "ToolRegistry", "ToolResult",
    "ToolTimeoutError", "ToolUsageError", "ToolValidationError", "Toolset", "Tried", "UnknownAgentError",
    "UnknownFormatError", "UnknownGrantError", "UnknownToolCallError", "UnknownToolError", "UnknownToolWarning",
    "UnusedCallsError", "agent", "autoload", "compare", "current_agent", "current_call", "discover_tools",
    "get_global_registry", "get_tool_registry", "hookimpl", "hookspec", "load_plugins", "normalize_name",
    "plugin_reports", "reset_tool_registry", "tool", "use_registry",
]  # fmt: skip


def _import_hookspecs() -> ModuleType:
    from praval_tools.plugins import hookspecs

    return hookspecs


def _import_loader() -> ModuleType:
    from praval_tools.plugins import loader

    return loader


def _import_report() -> ModuleType:
    from praval_tools.plugins import report

    return report


def _import_mcp_client() -> ModuleType:
    from praval_tools.integrations.mcp import client

    return client


def _import_openapi() -> ModuleType:
    from praval_tools.integrations.openapi import api_source

    return api_source


def _import_opentelemetry() -> ModuleType:
    from praval_tools.integrations.opentelemetry import telemetry

    return telemetry


def _import_worker_engine() -> ModuleType:
    from praval_tools.integrations.celery import engine

    return engine


def _import_remote_call() -> ModuleType:
    from praval_tools.execution.engines import remote_call

    return remote_call


def _import_configuration() -> ModuleType:
    from praval_tools.config_loading import loader

    return loader


def _import_collection() -> ModuleType:
    from praval_tools.registry import collection

    return collection


def _import_discovery() -> ModuleType:
    from praval_tools.registry import discovery

    return discovery


def _import_run() -> ModuleType:
    from praval_tools.runs import run

    return run


_LAZY_NAMES: dict[str, Callable[[], ModuleType]] = {
    "PluginReport": _import_report,
    "Run": _import_run,
    "ToolCollection": _import_collection,
    "autoload": _import_loader,
    "discover_tools": _import_discovery,
    "hookimpl": _import_hookspecs,
    "hookspec": _import_hookspecs,
    "load_plugins": _import_loader,
    "plugin_reports": _import_loader,
}
"""Names that are imported when they are first used: they cost nothing in programs without them."""

set_plugin_loader(lambda registry: _import_loader().load_at_first_lookup(registry))
set_mcp_connector(lambda *arguments: _import_mcp_client().register_mcp(*arguments))
set_openapi_preparer(lambda *arguments: _import_openapi().prepare_openapi(*arguments))
set_remote_submitter("process", lambda run: _import_remote_call().submit_remote_call(run))
set_remote_submitter("celery", lambda run: _import_worker_engine().submit_worker_call(run))
set_telemetry_maker(lambda **options: _import_opentelemetry().get_shared_telemetry(**options))

set_configuration_loaders(
    lambda make, paths, watch: _import_configuration().build_registry(make, paths, watch=watch),
    lambda registry, paths, watch: _import_configuration().configure_registry(registry, paths, watch=watch),
)


def __getattr__(name: str) -> Any:
    if name not in _LAZY_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_LAZY_NAMES[name](), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_NAMES})
