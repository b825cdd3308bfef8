"""What a configuration may say of a whole system: one class per table, whose fields are its keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from attrs import field, frozen

Json = Mapping[str, object]


@frozen(kw_only=True)
class ToolConfig:
    """
    A tool: a Python function, or a tool of an MCP server.

    Args:
        name: Its name, unique among all tools.
        description: What a model reads; left out: the function's docstring.
        source: `internal`: a Python function; `mcp`: a tool of the server that `mcp_server_name` names.
        module: The module that holds the function; imported at the first call.
        function: The function's name in the module.
        mcp_server_name: The server of a tool with `source: mcp`; below `provides_tools` it is known.
        parameters_schema: JSON Schema of the arguments; left out: derived from the function's type hints.
        inputSchema: Another name of `parameters_schema`, as MCP spells it.
        category: One label; agents may request it.
        speed: How long it usually takes; `medium` by default.
        safety: Where its code runs; `native` by default, `external` for tools of MCP servers.
        owned_by: The agent that is accountable for it, and may call and lend it.
        shared: Every agent with `auto_discover_tools` may call it.
        private: Listing, sharing and categories do not count.
        tags: Labels, which grant nothing.
        title: A name for people.
        version: The tool's own version.
        author: Who wrote it.
        requires_approval: Every call waits for a person.
        approval_reason: What the person who approves should know.
        risk_level: How bad a wrong call is.
        read_only: It changes nothing.
        destructive: It may destroy something.
        idempotent: A second run with the same key has no further effect.
        open_world: It reaches things outside.
        timeout: Seconds until a call is given up.
        retries: How often a call that may succeed later is tried again.
        concurrency_safe: false: it runs alone.
        max_result_size: Characters of a result that a model sees.
        engine: Where its function runs: `inline`, `thread`, `process`, `celery`, or an engine of a plugin.
        errors: `masked` hides the messages of unexpected exceptions from models.
        strict_arguments: true: arguments are never repaired.
    """

    name: str
    description: str | None = None
    source: Literal["internal", "mcp"] | None = None
    module: str | None = None
    function: str | None = None
    mcp_server_name: str | None = None
    parameters_schema: Json | None = None
    inputSchema: Json | None = None
    category: str | None = None
    speed: Literal["instant", "fast", "medium", "slow"] | None = None
    safety: Literal["native", "sandboxed", "external"] | None = None
    owned_by: str | None = None
    shared: bool | None = None
    private: bool | None = None
    tags: tuple[str, ...] | None = None
    title: str | None = None
    version: str | None = None
    author: str | None = None
    requires_approval: bool | None = None
    approval_reason: str | None = None
    risk_level: Literal["low", "medium", "high", "critical"] | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    timeout: float | None = None
    retries: int | None = None
    concurrency_safe: bool | None = None
    max_result_size: int | None = None
    engine: str | None = None
    errors: Literal["message", "masked"] | None = None
    strict_arguments: bool | None = None


@frozen(kw_only=True)
class AuthConfig:
    """
    How a server by URL learns who calls.

    Args:
        type: `bearer`: the header `Authorization: Bearer …`.
        token_env_var: The environment variable that holds the token.
    """

    type: Literal["bearer"]
    token_env_var: str


@frozen(kw_only=True)
class ServerConfig:
    """
    An MCP server, by its URL or by the command that starts it.

    Args:
        description: For people.
        url: Where it speaks streamable HTTP; `${NAME}` is an environment variable.
        command: The program that speaks MCP on its standard streams, with its arguments; `${NAME}` as in `url`.
        auth: The token for a URL.
        headers_env: For a URL: HTTP headers, each with the environment variable that holds its whole value.
        env: For a command: names of environment variables that its process gets.
        provides_tools: The tools that are taken of it, under these names, listed before it is connected; left out: all
            that it lists, as `server-tool`.
        owned_by: The agent that owns its tools.
        namespace: The prefix of the names of tools that `provides_tools` does not name; the server's name by default.
        include: Only these tools, by their names there.
        exclude: Not these.
        timeout: Seconds that a call may take.
        pin: true: a tool whose definition changes is held back; or the fingerprint of each tool by its name here.
        connect_timeout: Seconds until it must have listed its tools.
        max_message_bytes: How long one of its messages may be.
        max_tools: How many tools are taken.
    """

    description: str | None = None
    url: str | None = None
    command: str | tuple[str, ...] | None = None
    auth: AuthConfig | None = None
    headers_env: Mapping[str, str] = field(factory=dict)
    env: tuple[str, ...] = ()
    provides_tools: tuple[ToolConfig, ...] | None = None
    owned_by: str | None = None
    namespace: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    timeout: float | None = None
    pin: bool | Mapping[str, str] = False
    connect_timeout: float | None = None
    max_message_bytes: int | None = None
    max_tools: int | None = None


@frozen(kw_only=True)
class OpenApiConfig:
    """
    An OpenAPI document, whose operations are tools.

    Args:
        document: Its URL, or its file, seen from the folder of this one; `${NAME}` is an environment variable.
        namespace: The prefix of the names of its tools; unique among all sources.
        owned_by: The agent that owns its tools.
        include: Only these operations: their ids, or `GET /pets`; `*` stands for any text.
        exclude: Not these.
        names: The names here, after the prefix, of some operations, by their ids or `GET /pets`.
        base_url: Where all requests go, instead of the servers that the document names; `${NAME}` as in `document`.
        allow_servers: The URLs of other servers to which operations may be sent than that of the document.
        allow_references: The URLs or folders below which documents may be to which this one refers.
        auth_env: The environment variable that holds the secret of each security scheme, or of the only one.
        slash_parameters: The path parameters whose values may hold slashes.
        timeout: Seconds that a call may take.
        fetch_timeout: Seconds until a document must be there that has a URL.
        max_document_bytes: How long a document may be.
        max_answer_bytes: How long the answer to a call may be.
    """

    document: str
    namespace: str
    owned_by: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    names: Mapping[str, str] = field(factory=dict)
    base_url: str | None = None
    allow_servers: tuple[str, ...] = ()
    allow_references: tuple[str, ...] = ()
    auth_env: str | Mapping[str, str] | None = None
    slash_parameters: tuple[str, ...] = ()
    timeout: float | None = None
    fetch_timeout: float | None = None
    max_document_bytes: int | None = None
    max_answer_bytes: int | None = None


@frozen(kw_only=True)
class CategoryConfig:
    """
    A category of tools.

    Args:
        enabled: false: nobody can call its tools.
    """

    enabled: bool = True


@frozen(kw_only=True)
class ExecutionConfig:
    """
    How calls run, where a tool does not say it for itself.

    Args:
        timeout: Seconds that an async tool may take; 30 by default.
        max_retries: How often a call that may succeed later is tried again; 0 by default.
        retry_wait: Seconds before the first of them; doubled each time.
        engine: Where tools run: `inline`, `thread`, `process`, `celery`.
        processes: How many functions run at once in other processes; one for each processor by default.
        broker: Of the engine `celery`: the URL of a RabbitMQ or Redis; `${NAME}` is an environment variable.
        errors: `masked` hides the messages of unexpected exceptions from models.
        strict_arguments: true: arguments are never repaired.
        max_result_size: Characters of a result that a model sees.
        refusals: `hide` answers *unknown* for every refusal.
        max_argument_bytes: How long the arguments of a call may be as JSON text.
        max_argument_depth: How deep they may be nested; at most 64.
    """

    timeout: float | None = None
    max_retries: int | None = None
    retry_wait: float | None = None
    engine: str | None = None
    processes: int | None = None
    broker: str | None = None
    errors: Literal["message", "masked"] | None = None
    strict_arguments: bool | None = None
    max_result_size: int | None = None
    refusals: Literal["tell", "hide"] | None = None
    max_argument_bytes: int | None = None
    max_argument_depth: int | None = None


@frozen(kw_only=True)
class StatsConfig:
    """
    The statistics of tools.

    Args:
        track_usage: Whether calls are counted; true by default.
        storage_path: The JSON file that keeps the figures; `${NAME}` is an environment variable.
    """

    track_usage: bool = True
    storage_path: str | None = None


@frozen(kw_only=True)
class JournalConfig:
    """
    The journal of the registry.

    Args:
        path: Its file, or `memory`; `${NAME}` is an environment variable.
        durability: `full`: results are durable before they are returned; `intent`: they are not waited for.
        errors: `continue` goes on, with a warning, where the journal fails.
        secrets: Names of keys whose values are secret, besides the usual ones.
        warn_run_events: After how many events of one run a warning is given.
        max_run_events: After how many events of one run its new calls are refused.
    """

    path: str
    durability: Literal["full", "intent"] | None = None
    errors: Literal["raise", "continue"] | None = None
    secrets: tuple[str, ...] = ()
    warn_run_events: int | None = None
    max_run_events: int | None = None


@frozen(kw_only=True)
class TelemetryConfig:
    """
    Spans and metrics of the calls, for OpenTelemetry's global providers; the extra is `otel`.

    Args:
        enabled: false: there are none.
        record_arguments: true: spans hold the arguments, without secrets.
        record_results: true: they hold values and messages of errors, without secrets, too.
        max_content_size: Characters of each of these.
    """

    enabled: bool = True
    record_arguments: bool = False
    record_results: bool = False
    max_content_size: int | None = None


@frozen(kw_only=True)
class AgentConfig:
    """
    An agent.

    Args:
        tools: The tools that it lists, and so may call.
        tool_categories: The categories that it requests.
        auto_discover_tools: Whether it may call what it owns and what is shared; true by default.
    """

    tools: tuple[str, ...] = ()
    tool_categories: tuple[str, ...] = ()
    auto_discover_tools: bool = True


@frozen(kw_only=True)
class GrantConfig:
    """
    A permission with terms: an agent may call a tool.

    Args:
        tool: The tool's name.
        agent: The agent's name.
        max_calls: How many calls it admits.
        expires: The moment from which it permits nothing, as `2030-01-31T18:00:00Z`; a time span such as `90m` or
            `7d` counts from when it is first loaded.
        where: Bounds on the arguments: parameter to JSON Schema, or a whole JSON Schema.
        delegable: The agent may lend it on, narrower.
        reason: Why.
    """

    tool: str
    agent: str
    max_calls: int | None = None
    expires: str | datetime | None = None
    where: Json | None = None
    delegable: bool = False
    reason: str = ""


@frozen(kw_only=True)
class BlockConfig:
    """
    A refusal that beats every permission.

    Args:
        tool: The tool's name.
        agent: The agent's name.
        reason: Why.
    """

    tool: str
    agent: str
    reason: str = ""


@frozen(kw_only=True)
class LimitConfig:
    """
    A limit of the calls of an agent, to a tool, or of one agent to one tool.

    Args:
        agent: The agent whose calls count.
        tool: The tool whose calls count.
        per_minute: Calls that begin within any sixty seconds.
        concurrent: Calls in flight at once.
        per_run: Calls of one journaled run.
    """

    agent: str | None = None
    tool: str | None = None
    per_minute: int | None = None
    concurrent: int | None = None
    per_run: int | None = None


@frozen(kw_only=True)
class ApprovalsConfig:
    """
    Who is asked for approvals.

    Args:
        handler: `module:function`: what is asked for every approval, as by `set_approval_handler`; it gets an
            `ApprovalRequest` and returns, or awaits, `Allow` or `Deny`.
    """

    handler: str


@frozen(kw_only=True)
class SystemConfig:
    """
    A whole configuration; its keys may be spread over several files.

    Args:
        app: The registry of the command line: `module:registry`.
        autoload: Load the installed plugins into it.
        name: The registry's name, for messages.
        tools: The tools.
        mcp_servers: MCP servers, by the names that they have here.
        openapi: OpenAPI documents.
        categories: Categories of tools, by name.
        execution: How calls run.
        stats: The statistics of tools.
        journal: The journal.
        telemetry: Spans and metrics of the calls.
        agents: The agents, by name.
        grants: Permissions with terms.
        blocks: Refusals that beat every permission.
        limits: Limits of calls.
        approvals: Who is asked for approvals.
        plugins: What is allowed and set for each plugin, by the name of its distribution.
        sources: What plugins load further tools from; each with a `kind`.
    """

    app: str | None = None
    autoload: bool = False
    name: str = ""
    tools: tuple[ToolConfig, ...] = ()
    mcp_servers: Mapping[str, ServerConfig] = field(factory=dict)
    openapi: tuple[OpenApiConfig, ...] = ()
    categories: Mapping[str, CategoryConfig] = field(factory=dict)
    execution: ExecutionConfig | None = None
    stats: StatsConfig | None = None
    journal: JournalConfig | None = None
    telemetry: TelemetryConfig | None = None
    agents: Mapping[str, AgentConfig] = field(factory=dict)
    grants: tuple[GrantConfig, ...] = ()
    blocks: tuple[BlockConfig, ...] = ()
    limits: tuple[LimitConfig, ...] = ()
    approvals: ApprovalsConfig | None = None
    plugins: Json = field(factory=dict)
    sources: tuple[Json, ...] = ()
