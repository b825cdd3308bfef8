"""What happens in the demo, as values: the play makes them, a show renders them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from praval_tools import Allow, ApprovalRequest, Decision, Deny, ToolRegistry, ToolResult
from praval_tools.access.events import AnyStateEvent
from praval_tools.demo.question import Question
from praval_tools.demo.run_report import RunReport
from praval_tools.demo.statistics import Average, Comparison
from praval_tools.demo.tools import Report, Word
from praval_tools.journal import RecordedCall


@frozen
class OpeningStep:
    """The question was put, and the agents introduced themselves: name, and by which ways each has its tools."""

    question: Question
    agents: tuple[tuple[str, str], ...]


@frozen
class SceneStep:
    """A new part begins: its number, its title, and a sentence on what to look for."""

    number: int
    title: str
    text: str = ""


@frozen
class CallStep:
    """An agent called a tool: the arguments, what came back, and that in one line."""

    result: ToolResult
    arguments: dict[str, Any]
    summary: str = ""


@frozen
class RegistryChangeStep:
    """The registry changed: an event of its own."""

    event: AnyStateEvent


@frozen
class DecisionStep:
    """A decision with every rule that was tried."""

    decision: Decision


@frozen
class RemarkStep:
    """Somebody said something about what is seen."""

    text: str


@frozen
class ApprovalStep:
    """Somebody was asked for an approval, and answered."""

    request: ApprovalRequest
    answer: Allow | Deny


@frozen
class CrashStep:
    """The process killed itself, after the effect of a call of this tool and before its record."""

    tool: str


@frozen
class ResumeStep:
    """Another process opens the run again: which one it is."""

    process_number: int


@frozen
class InDoubtStep:
    """
    A call began, and nothing says how it ended.

    Args:
        call: What was recorded of it.
        idempotent: Its tool may run again with the same key.
        happened: Its effect is there.
    """

    call: RecordedCall
    is_idempotent: bool
    has_effect: bool


@frozen
class ReplayStep:
    """The run is where it was: so many calls were answered by their records."""

    replayed_count: int


@frozen
class PictureStep:
    """A picture was drawn: the PNG, and by what."""

    png: bytes = field(repr=False)
    caption: str


@frozen
class RunReportStep:
    """What happened, call by call, as the journal tells it."""

    run_report: RunReport


@frozen
class ToolsetChangeStep:
    """What a toolset held before and after."""

    agent: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@frozen
class ProfileStep:
    """A measure along two columns, as a chart."""

    question: Question
    averages: list[Average]


@frozen
class AnswerStep:
    """The answer as it was published, with the figures behind it."""

    question: Question
    report: Report
    groups: list[Comparison]
    words: list[Word]


@frozen
class AccessStep:
    """Who may call what now: the registry, and the agents in the order of their entrance."""

    registry: ToolRegistry
    agents: tuple[str, ...]


@frozen
class ClosingStep:
    """
    The end.

    Args:
        question: Where the data came from.
        own: They are the user's own.
        missing: A package whose tools the demo would have used.
    """

    question: Question
    has_own_data: bool
    missing_package: str = ""


Step = (
    OpeningStep | SceneStep | CallStep | RegistryChangeStep | DecisionStep | RemarkStep | ApprovalStep | CrashStep | ResumeStep | InDoubtStep | ReplayStep | ToolsetChangeStep
    | ProfileStep | PictureStep | AnswerStep | RunReportStep | AccessStep | ClosingStep
)  # fmt: skip
StepCallback = Callable[[Step], None]
