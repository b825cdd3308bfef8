"""The steps of the demo, as values: the scenario emits them, a terminal and a report render them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import field, frozen

from praval_tools.access.events import AnyStateEvent
from praval_tools.demo.question import Question
from praval_tools.demo.run_report import RunReport
from praval_tools.demo.statistics import Average, Comparison
from praval_tools.demo.tools import Report, Word
from praval_tools.journal import RecordedCall
from praval_tools.registry.registry import ToolRegistry
from praval_tools.tools.call import ToolResult
from praval_tools.tools.decision import Allow, ApprovalRequest, Decision, Deny


@frozen
class Step:
    """Base of everything that happens in the demo."""


@frozen
class OpeningStep(Step):
    """The question, and the agents: name, and by which rules each has its tools."""

    question: Question
    agents: tuple[tuple[str, str], ...]


@frozen
class SceneStep(Step):
    """A new part begins: its number, its title, and a sentence on what to look for."""

    number: int
    title: str
    text: str = ""


@frozen
class CallStep(Step):
    """An agent called a tool: the result, the arguments, and the result in one line."""

    result: ToolResult
    arguments: dict[str, Any]
    summary: str = ""


@frozen
class RegistryChangeStep(Step):
    """The registry changed: its own event."""

    event: AnyStateEvent


@frozen
class DecisionStep(Step):
    """A decision with every rule that was tried."""

    decision: Decision


@frozen
class RemarkStep(Step):
    """A remark about what is shown."""

    text: str


@frozen
class ApprovalStep(Step):
    """An approval was requested and answered."""

    request: ApprovalRequest
    answer: Allow | Deny


@frozen
class CrashStep(Step):
    """The process killed itself after the effect of a call of this tool and before its record."""

    tool: str


@frozen
class ResumeStep(Step):
    """Another process opens the run again: its number."""

    process_number: int


@frozen
class InDoubtStep(Step):
    """
    A call started, and its result was not recorded.

    Args:
        call: What was recorded of it.
        is_idempotent: Its tool may run again with the same key.
        has_effect: Its effect is there.
    """

    call: RecordedCall
    is_idempotent: bool
    has_effect: bool


@frozen
class ReplayStep(Step):
    """The run has caught up: how many calls were answered from the journal."""

    replayed_count: int


@frozen
class PictureStep(Step):
    """A picture was drawn: the PNG, and by what."""

    png: bytes = field(repr=False)
    caption: str


@frozen
class RunReportStep(Step):
    """What happened, call by call, from the journal."""

    run_report: RunReport


@frozen
class ToolsetChangeStep(Step):
    """What a toolset held before and after."""

    agent: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@frozen
class ProfileStep(Step):
    """A measure along two columns, for a chart."""

    question: Question
    averages: list[Average]


@frozen
class AnswerStep(Step):
    """The answer as it was published, with the figures behind it."""

    question: Question
    report: Report
    groups: list[Comparison]
    words: list[Word]


@frozen
class AccessStep(Step):
    """Who may call what now: the registry, and the agents in their order."""

    registry: ToolRegistry
    agents: tuple[str, ...]


@frozen
class ClosingStep(Step):
    """
    The end.

    Args:
        question: The question, with the source of the data.
        commands: What a reader may want to do next, and the command for it.
    """

    question: Question
    commands: Sequence[tuple[str, str]] = ()


StepCallback = Callable[[Step], None]
