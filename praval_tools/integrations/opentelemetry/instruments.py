"""What the tracers of several registries share: the instruments of a backend, and what is recorded with them."""

from __future__ import annotations

from attrs import field, frozen
from opentelemetry.metrics import Histogram
from opentelemetry.trace import Tracer

from praval_tools.integrations.opentelemetry.attributes import (
    OPERATION,
    OTHER,
    Attributes,
    Ending,
    KnownNames,
    drop_empty,
    get_tool_type,
)
from praval_tools.tools.tool import AnyTool


@frozen(kw_only=True, eq=False)
class Instruments:
    """
    The instruments, and the options.

    Args:
        tracer: Makes the spans.
        duration: Takes the duration of each call.
        record_arguments: Whether spans hold arguments.
        record_results: Whether they hold values and messages of errors.
        max_content_size: Characters of each of these.
    """

    tracer: Tracer
    duration: Histogram
    record_arguments: bool
    record_results: bool
    max_content_size: int
    _known_agents: KnownNames = field(factory=KnownNames, init=False)
    _known_tools: KnownNames = field(factory=KnownNames, init=False)
    _known_errors: KnownNames = field(factory=KnownNames, init=False)

    @property
    def record_content(self) -> bool:
        """Whether spans hold any of it."""
        return self.record_arguments or self.record_results

    def build_metric_attributes(self, agent: str | None, tool: AnyTool | None, ending: Ending) -> Attributes:
        """Return the attributes of a measured duration: few different ones, since a metric keeps a series for each."""
        attributes: Attributes = {
            "gen_ai.operation.name": OPERATION,
            "gen_ai.tool.name": OTHER if tool is None else self._known_tools.limit(tool.name),
            "gen_ai.tool.type": "" if tool is None else get_tool_type(tool),
            "gen_ai.agent.name": "" if agent is None else self._known_agents.limit(agent),
            "praval.call.outcome": ending.outcome,
            "praval.decision.rule": ending.rule,
            "error.type": self._known_errors.limit(ending.error),
        }
        return drop_empty(attributes)
