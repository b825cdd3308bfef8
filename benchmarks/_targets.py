"""What is promised: every target, in one place, by the key of the figure that it judges."""

from __future__ import annotations

from typing import Final, Literal

from _measure import Figure
from attrs import frozen


@frozen
class Target:
    """
    A promise about one figure.

    Args:
        work: What is done, as the table says it.
        key: The figure that is judged.
        limit: The number promised.
        unit: Its unit: `x` is a ratio.
        sense: Whether the figure must stay at or below the limit, or reach it.
        versus: What the ratio is to.
    """

    work: str
    key: str
    limit: float
    unit: str
    sense: Literal["at most", "at least"] = "at most"
    versus: str = ""

    def met(self, figure: Figure) -> bool:
        """Tell whether *figure* keeps the promise."""
        return figure.value <= self.limit if self.sense == "at most" else figure.value >= self.limit

    @property
    def text(self) -> str:
        """The promise in a few characters."""
        sign = "≤" if self.sense == "at most" else "≥"
        return f"{sign} {shown(self.limit, self.unit)}"


def shown(value: float, unit: str) -> str:
    """Return a number with its unit, with as many digits as mean something."""
    if unit == "count":
        return f"{value:.0f}"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    number = f"{value:,.{digits}f}"
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    return f"{number} ×" if unit == "x" else f"{number} {_UNITS.get(unit, unit)}"


_UNITS: Final = {"us": "µs"}
_SDK: Final = "the SDK's bare server"
_BARE: Final = "f(x=…, y=…)"

TARGETS: Final = (
    Target('toolset.call("add", x=…, y=…)', "call:toolset.call", 12, "x", versus=_BARE),
    Target('bound = toolset["add"]; bound(x=…, y=…)', "call:bound", 12, "x", versus=_BARE),
    Target('agent.call("add", x=…, y=…)', "call:agent.call", 12, "x", versus=_BARE),
    Target("  … with a policy", "call:policy", 60, "x", versus=_BARE),
    Target("  … with a limit", "call:limit", 60, "x", versus=_BARE),
    Target("  … with a before-call hook", "call:before", 60, "x", versus=_BARE),
    Target("  … with an after-call hook", "call:after", 60, "x", versus=_BARE),
    Target("toolset.call, compared", "faster:toolregistry", 10, "x", "at least", "toolregistry"),
    Target("toolset.call, compared", "faster:langchain", 100, "x", "at least", "langchain-core"),
    Target("toolset.call, compared", "slower:pydantic", 1.5, "x", versus="pydantic's TypeAdapter and call"),
    Target(
        "  … and below the public API", "slower:pydantic-core", 1.5, "x", versus="pydantic-core's validator and call"
    ),
    Target("registry.execute(ToolCall) → ToolResult", "call:registry.execute", 100, "x", versus=_BARE),
    Target("await toolset.acall, async tool in place", "faster:pydantic-ai", 15, "x", "at least", "Pydantic AI"),
    Target("await registry.aexecute, the same", "faster:pydantic-ai-result", 15, "x", "at least", "Pydantic AI"),
    Target("toolset.call_json, JSON text → JSON text", "call:json", 30, "x", versus=_BARE),
    Target("declare a tool with @tool", "declare:time", 30, "us"),
    Target("memory of a declared tool", "declare:bytes", 2.0, "KB"),
    Target("declare 10,000 tools", "declare:10000", 0.3, "s"),
    Target("schema on first use", "declare:schema", 0.4, "ms"),
    Target("get_tools_for_agent, 100 → 100,000 tools", "scale:get_tools_for_agent", 1.3, "x", versus="100 tools"),
    Target("explain, 100 → 100,000 tools", "scale:explain", 1.3, "x", versus="100 tools"),
    Target("call, 100 → 100,000 tools", "scale:call", 1.3, "x", versus="100 tools"),
    Target("register 100,000 tools one by one", "register:100000", 5, "s"),
    Target("  … the last tenth against the first", "register:linear", 1.3, "x", versus="the first 10,000"),
    Target("search by owner, 1,000 → 100,000 tools, same hits", "search:owner", 1.3, "x", versus="1,000 tools"),
    Target("search by category, the same", "search:category", 1.3, "x", versus="1,000 tools"),
    Target("search by tag, the same", "search:tag", 1.3, "x", versus="1,000 tools"),
    Target("  … ten times the hits", "search:hits", 12, "x", versus="a tenth of the hits"),
    Target("search by words, 10,000 tools", "find:words", 20, "ms"),
    Target("revocations not seen by the next call, 8 threads", "live:late", 0, "count"),
    Target("longest wait of a reader while a writer holds on", "live:wait", 20, "ms"),
    Target("schemas_json of an agent's 20 tools, unchanged", "export:schemas_json", 2, "us"),
    Target("schemas of an agent's 20 tools, a fresh copy", "export:schemas", 60, "us"),
    Target("  … of 1,000 tools, nothing kept", "export:fresh", 10, "x", versus="json.dumps of the same"),
    Target("journaled calls, 64 tasks, SQLite", "journal:calls", 10_000, "/s", "at least"),
    Target("  … two events each, of raw grouped inserts", "journal:share", 60, "%", "at least", "raw inserts"),
    Target("journaled calls, 64 tasks, PostgreSQL", "journal:postgres-share", 40, "%", "at least", "raw inserts"),
    Target("replay of 10,000 recorded calls", "journal:replay", 0.2, "s"),
    Target("each page of the operator's page, 1,000,000 events", "web:page:ms", 200, "ms"),
    Target("  … memory beyond that of the program", "web:memory:mb", 300, "MB"),
    Target(
        "each page of who may call what, 10,000 tools × 1,000 agents, the same events", "web-access:page:ms", 200, "ms"
    ),
    Target("  … memory beyond that of the program", "web-access:memory:mb", 300, "MB"),
    Target("load 50 plugins of 20 tools each", "plugins:loading", 1.5, "x", versus="importing their modules"),
    Target("a call in another process", "processes:call", 1.5, "x", versus="ProcessPoolExecutor, spawn"),
    Target("a journaled call on a worker, PostgreSQL and Redis", "workers:latency", 3, "x", versus="bare Celery"),
    Target("  … calls a second, two processes", "workers:throughput", 0.5, "x", "at least", "bare Celery"),
    Target("tools/call over MCP, stdio", "mcp:stdio:call:ours", 1.25, "x", versus=_SDK),
    Target("  … audited in memory", "mcp:stdio:call:ours-memory", 1.25, "x", versus=_SDK),
    Target("  … audited in SQLite", "mcp:stdio:call:ours-sqlite", 1.25, "x", versus=_SDK),
    Target("tools/call over MCP, HTTP", "mcp:http:call:ours", 1.25, "x", versus=_SDK),
    Target("  … audited in memory", "mcp:http:call:ours-memory", 1.25, "x", versus=_SDK),
    Target("  … audited in SQLite", "mcp:http:call:ours-sqlite", 1.25, "x", versus=_SDK),
    Target("tools/list of 1,000 tools over MCP, stdio", "mcp:stdio:list:ours", 1, "x", versus=_SDK),
    Target("tools/list of 1,000 tools over MCP, HTTP", "mcp:http:list:ours", 1, "x", versus=_SDK),
    Target("a tool call of Pydantic AI", "framework:pydantic-ai-slim:call", 1.1, "x", versus="its own tool"),
    Target("  … ten in a run of an agent", "framework:pydantic-ai-slim:run", 1.1, "x", versus="its own tools"),
    Target("a tool call of OpenAI Agents, of 100", "framework:openai-agents:call", 1.1, "x", versus="its own"),
    Target("  … ten in a run of an agent", "framework:openai-agents:run", 1.1, "x", versus="its own tools"),
    Target("a tool call of LangChain", "framework:langchain:call", 1.1, "x", versus="its own tool"),
    Target("  … ten in a run of an agent", "framework:langchain:run", 1.1, "x", versus="its own, with a middleware"),
    Target("import praval_tools", "import:ours", 1.5, "x", versus="import attrs, cattrs, pluggy"),
)
