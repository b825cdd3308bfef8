"""The play: what happens in the house, in four scenes."""

from __future__ import annotations

from praval_tools.demo.cast import WAYS, House, Stage, open_house
from praval_tools.demo.question import Question
from praval_tools.demo.steps import Answered, Changed, Closed, Compared, Opened, Remarked, Scene, Surveyed, Tell
from praval_tools.demo.tools import Report, declare_fair_comparison
from praval_tools.facts import Event, GrantSpent


def perform(question: Question, tell: Tell) -> None:
    """Play the whole of it; every step is told as it happens, changes of the registry by its own events."""
    house = open_house(question)
    stage = Stage(question, house.registry, tell)
    tell(Opened(question, WAYS))
    with house.registry:
        house.registry.subscribe(lambda event: _told(event, tell))
        _lending(house, stage)
        _refusal(house, stage)
        _arrival(house, stage)
        report = _handover(house, stage)
        tell(Answered(question, report, stage.groups, stage.common))
        tell(Surveyed(house.registry, tuple(house.agents)))
        tell(Closed(question))


def _told(event: Event, tell: Tell) -> None:
    if not isinstance(event, GrantSpent):  # every counted call spends; the call itself is told already
        tell(Changed(event))


def _lending(house: House, stage: Stage) -> None:
    stage.tell(Scene("The librarian lends", "The raw rows are the librarian's. It lends them, within bounds."))
    house.agents["librarian"](stage)


def _refusal(house: House, stage: Stage) -> None:
    stage.tell(Scene("The analyst asks for too much", "A sample is within the bounds, everything is not."))
    house.agents["analyst"](stage)


def _arrival(house: House, stage: Stage) -> None:
    stage.tell(Scene("A tool arrives late", "The statistician lists fair_comparison, which nobody has declared."))
    for problem in house.registry.problems():
        stage.tell(Remarked(f"registry.problems(): {problem.message}"))
    statistician = house.agents["statistician"]
    before = tuple(statistician.list_tools())
    declare_fair_comparison(house.registry, house.desk)
    stage.tell(Compared("statistician", before, tuple(statistician.list_tools())))
    statistician(stage)


def _handover(house: House, stage: Stage) -> Report:
    stage.tell(Scene("Responsibility changes hands", "Only its owner may publish, and the analyst owns it."))
    registry, draft = house.registry, {"headline": "Draft", "findings": ["not checked yet"]}
    reporter, analyst = house.agents["reporter"], house.agents["analyst"]
    stage.attempt_as(reporter, "publish", **draft)
    registry.transfer_ownership("publish", "reporter", by="analyst", reason="the figures are checked")
    stage.attempt_as(analyst, "publish", **draft)
    report: Report = reporter(stage)
    return report
