"""What happens in the demo, as values: the play makes them, a show renders them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from praval_tools import Allow, ApprovalRequest, Decision, Deny, ToolRegistry, ToolResult
from praval_tools.access.events import Event
from praval_tools.demo.question import Question
from praval_tools.demo.run_report import Account
from praval_tools.demo.statistics import Average, Comparison
from praval_tools.demo.tools import Report, Word
from praval_tools.journal import RecordedCall


@frozen
class Opened:
    """The question was put, and the agents introduced themselves: name, and by which ways each has its tools."""

    question: Question
    agents: tuple[tuple[str, str], ...]


@frozen
class Scene:
    """A new part begins: its number, its title, and a sentence on what to look for."""

    number: int
    title: str
    text: str = ""


@frozen
class Called:
    """An agent called a tool: the arguments, what came back, and that in one line."""

    result: ToolResult
    arguments: dict[str, Any]
    summary: str = ""


@frozen
class Changed:
    """The registry changed: an event of its own."""

    event: Event


@frozen
class Explained:
    """A decision with every rule that was tried."""

    decision: Decision


@frozen
class Remarked:
    """Somebody said something about what is seen."""

    text: str


@frozen
class Asked:
    """Somebody was asked for an approval, and answered."""

    request: ApprovalRequest
    answer: Allow | Deny


@frozen
class Died:
    """The process killed itself, after the effect of a call of this tool and before its record."""

    tool: str


@frozen
class Resumed:
    """Another process opens the run again: which one it is."""

    process: int


@frozen
class Doubted:
    """
    A call began, and nothing says how it ended.

    Args:
        call: What was recorded of it.
        idempotent: Its tool may run again with the same key.
        happened: Its effect is there.
    """

    call: RecordedCall
    idempotent: bool
    happened: bool


@frozen
class Replayed:
    """The run is where it was: so many calls were answered by their records."""

    calls: int


@frozen
class Pictured:
    """A picture was drawn: the PNG, and by what."""

    png: bytes = field(repr=False)
    caption: str


@frozen
class Recounted:
    """What happened, call by call, as the journal tells it."""

    account: Account


@frozen
class Compared:
    """What a toolset held before and after."""

    agent: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@frozen
class Profiled:
    """A measure along two columns, as a chart."""

    question: Question
    averages: list[Average]


@frozen
class Answered:
    """The answer as it was published, with the figures behind it."""

    question: Question
    report: Report
    groups: list[Comparison]
    words: list[Word]


@frozen
class Surveyed:
    """Who may call what now: the registry, and the agents in the order of their entrance."""

    registry: ToolRegistry
    agents: tuple[str, ...]


@frozen
class Closed:
    """
    The end.

    Args:
        question: Where the data came from.
        own: They are the user's own.
        missing: A package whose tools the demo would have used.
    """

    question: Question
    own: bool
    missing: str = ""


Step = (
    Opened | Scene | Called | Changed | Explained | Remarked | Asked | Died | Resumed | Doubted | Replayed | Compared
    | Profiled | Pictured | Answered | Recounted | Surveyed | Closed
)  # fmt: skip
Tell = Callable[[Step], None]
