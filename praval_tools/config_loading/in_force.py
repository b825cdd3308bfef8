"""What a configuration has brought to a registry."""

from __future__ import annotations

from attrs import define, field

from praval_tools.access.records import AgentProfile, Block
from praval_tools.config.system import GrantConfig, ToolConfig
from praval_tools.config_loading.declarations import Declarations, Located
from praval_tools.config_loading.servers import ServerDeclaration
from praval_tools.config_loading.services import ServiceInForce
from praval_tools.execution.protocols import ToolSource
from praval_tools.tools.tool import AnyTool


@define
class InForce:
    """
    What a configuration has brought to a registry.

    Args:
        files: The paths of its files, by what stands for them in records.
        declarations: What they declare.
        tools: The tools that are functions, with their entries, by name.
        servers: The servers, with what is declared of them, by name.
        services: The OpenAPI documents, by their namespaces.
        agents: The profiles that were declared, by name.
        blocks: The blocks that were declared.
        disabled: The categories that were disabled, each after what stands for its file.
        waiting_grants: Grants of tools that a server may bring once it is connected.
        blocked_grants: Grants that are not made, since a block refuses the agent the tool.
    """

    files: dict[str, str] = field(factory=dict)
    declarations: Declarations = field(factory=Declarations)
    tools: dict[str, tuple[ToolConfig, AnyTool]] = field(factory=dict)
    servers: dict[str, tuple[ServerDeclaration, ToolSource]] = field(factory=dict)
    services: dict[str, ServiceInForce] = field(factory=dict)
    agents: dict[str, AgentProfile] = field(factory=dict)
    blocks: set[Block] = field(factory=set)
    disabled: set[tuple[str, str]] = field(factory=set)
    waiting_grants: list[Located[GrantConfig]] = field(factory=list)
    blocked_grants: list[Located[GrantConfig]] = field(factory=list)

    def may_have(self, tool: str) -> bool:
        """Tell whether a tool of this name may come, once servers are connected and documents read."""
        may_come = any(declaration.may_have(tool) for declaration, _ in self.servers.values())
        return may_come or any(service.may_have(tool) for service in self.services.values())

    def list_unread_sources(self) -> list[str]:
        """Return the servers and documents that may bring tools whose names are not declared."""
        servers = [
            f"MCP server {name!r}"
            for name, (declaration, source) in self.servers.items()
            if declaration.tools is None and not source.tools
        ]
        services = [f"OpenAPI document {name!r}" for name, service in self.services.items() if service.source is None]
        return [*servers, *services]

    def list_sources(self) -> list[ToolSource]:
        """Return the servers, and the documents that are read."""
        services = [service.source for service in self.services.values() if service.source is not None]
        return [*(source for _, source in self.servers.values()), *services]
