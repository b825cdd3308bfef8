"""The play: what happens in the house, in four scenes; in one process, or in as many as it takes to survive."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from praval_tools import Allow, ApprovalRequest
from praval_tools.access.events import Event, GrantSpent
from praval_tools.demo import plugin_scene
from praval_tools.demo.agents import WAYS, House, Stage, open_house
from praval_tools.demo.effects import Effects, Fatal
from praval_tools.demo.question import Question
from praval_tools.demo.resume import CatchingUp, settled
from praval_tools.demo.run_report import account_of
from praval_tools.demo.steps import (
    Answered,
    Asked,
    Changed,
    Compared,
    Opened,
    Recounted,
    Remarked,
    Scene,
    Surveyed,
    Tell,
)
from praval_tools.demo.tools import Report, declare_fair_comparison

RUN = "demo"
"""The id of the run in the journal."""


@frozen(kw_only=True)
class Workplace:
    """
    Where the play leaves what happened.

    Args:
        journal: The journal's file.
        effects: The file with a line per effect.
        fatal: Where the process is to die, if it is.
    """

    journal: Path
    effects: Path
    fatal: Fatal | None = None


def perform(question: Question, tell: Tell, workplace: Workplace | None = None) -> None:
    """
    Play the whole of it; every step is told as it happens, changes of the registry by its own events.

    Args:
        question: What the agents are to find out.
        tell: Is told each step.
        workplace: Where the journal is; the play goes on from where an earlier process died. None: all is in memory.
    """
    if workplace is None:
        house = open_house(question)
        with house.registry:
            _play(house, question, tell)
        return
    effects = Effects(workplace.effects, workplace.fatal)
    house = open_house(question, journal=workplace.journal, effects=effects)
    with house.registry, house.registry.run(RUN) as run:
        recorded = bool(run.calls)
        doubts = frozenset(settled(run, house, tell))
        _play(house, question, CatchingUp(tell, doubts) if recorded else tell, workplace.journal.parent)


def _play(house: House, question: Question, tell: Tell, folder: Path | None = None) -> None:
    stage, registry = Stage(question, house.registry, tell), house.registry
    registry.set_approval_handler(lambda request: _approved(request, tell))
    tell(Opened(question, WAYS))
    registry.subscribe(lambda event: _told(event, tell))
    _lending(house, stage)
    _refusal(house, stage)
    _arrival(house, stage)
    report = _handover(house, stage)
    tell(Answered(question, report, stage.groups, stage.common))
    if folder is not None and plugin_scene.installed():
        plugin_scene.at_work(house, stage, folder)
    if registry.journal is not None:
        tell(Recounted(account_of(registry.journal, RUN, house.desk.effects.all())))
    tell(Surveyed(registry, tuple(house.agents)))


def _told(event: Event, tell: Tell) -> None:
    if not isinstance(event, GrantSpent):  # every counted call spends; the call itself is told already
        tell(Changed(event))


def _approved(request: ApprovalRequest, tell: Tell) -> Allow:
    answer = Allow(by="operator", reason="the figures are checked")
    tell(Asked(request, answer))
    return answer


def _lending(house: House, stage: Stage) -> None:
    stage.tell(Scene(1, "The librarian lends", "The raw rows are the librarian's. It lends them, within bounds."))
    house.agents["librarian"](stage)


def _refusal(house: House, stage: Stage) -> None:
    stage.tell(Scene(2, "The analyst asks for too much", "A sample is within the bounds, everything is not."))
    house.agents["analyst"](stage)


def _arrival(house: House, stage: Stage) -> None:
    text = "The statistician lists fair_comparison, which nobody has declared."
    stage.tell(Scene(3, "A tool arrives late", text))
    for problem in house.registry.problems():
        stage.tell(Remarked(f"registry.problems(): {problem.message}"))
    statistician = house.agents["statistician"]
    before = tuple(statistician.list_tools())
    declare_fair_comparison(house.registry, house.desk)
    stage.tell(Compared("statistician", before, tuple(statistician.list_tools())))
    statistician(stage)


def _handover(house: House, stage: Stage) -> Report:
    stage.tell(Scene(4, "Responsibility changes hands", "Only its owner may publish, and the analyst owns it."))
    registry, draft = house.registry, {"headline": "Draft", "findings": ["not checked yet"]}
    reporter, analyst = house.agents["reporter"], house.agents["analyst"]
    stage.attempt_as(reporter, "publish", **draft)
    if registry.search_tools("publish", owned_by="analyst"):  # else it was handed over before the process died
        registry.transfer_ownership("publish", "reporter", by="analyst", reason="the figures are checked")
    stage.attempt_as(analyst, "publish", **draft)
    report: Report = reporter(stage)
    return report
