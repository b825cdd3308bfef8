"""The play: what happens in the house, in four scenes; in one process, or in as many as it takes to survive."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from praval_tools import Allow, ApprovalRequest
from praval_tools.access.events import AnyStateEvent, GrantSpent
from praval_tools.demo import plugin_scene
from praval_tools.demo.agents import AGENT_DESCRIPTIONS, AgentContext, DemoApp, build_app
from praval_tools.demo.effects import CrashPoint, EffectLog
from praval_tools.demo.question import Question
from praval_tools.demo.resume import ReplayFilter, resolve_doubts
from praval_tools.demo.run_report import build_run_report
from praval_tools.demo.steps import (
    AccessStep,
    AnswerStep,
    ApprovalStep,
    OpeningStep,
    RegistryChangeStep,
    RemarkStep,
    RunReportStep,
    SceneStep,
    StepCallback,
    ToolsetChangeStep,
)
from praval_tools.demo.tools import Report, declare_fair_comparison

RUN_ID = "demo"
"""The id of the run in the journal."""


@frozen(kw_only=True)
class RunFiles:
    """
    Where the play leaves what happened.

    Args:
        journal: The journal's file.
        effects: The file with a line per effect.
        fatal: Where the process is to die, if it is.
    """

    journal: Path
    effects: Path
    crash_point: CrashPoint | None = None


def run_demo(question: Question, tell: StepCallback, workplace: RunFiles | None = None) -> None:
    """
    Play the whole of it; every step is told as it happens, changes of the registry by its own events.

    Args:
        question: What the agents are to find out.
        tell: Is told each step.
        workplace: Where the journal is; the play goes on from where an earlier process died. None: all is in memory.
    """
    if workplace is None:
        house = build_app(question)
        with house.registry:
            _run_scenes(house, question, tell)
        return
    effects = EffectLog(workplace.effects, workplace.crash_point)
    house = build_app(question, journal=workplace.journal, effects=effects)
    with house.registry, house.registry.run(RUN_ID) as run:
        recorded = bool(run.calls)
        doubts = frozenset(resolve_doubts(run, house, tell))
        _run_scenes(house, question, ReplayFilter(tell, doubts) if recorded else tell, workplace.journal.parent)


def _run_scenes(house: DemoApp, question: Question, tell: StepCallback, folder: Path | None = None) -> None:
    stage, registry = AgentContext(question, house.registry, tell), house.registry
    registry.set_approval_handler(lambda request: _approve_request(request, tell))
    tell(OpeningStep(question, AGENT_DESCRIPTIONS))
    registry.subscribe(lambda event: _emit_change(event, tell))
    _run_lending_scene(house, stage)
    _run_refusal_scene(house, stage)
    _run_late_tool_scene(house, stage)
    report = _run_handover_scene(house, stage)
    tell(AnswerStep(question, report, stage.groups, stage.common_words))
    if folder is not None and plugin_scene.is_package_available():
        plugin_scene.run_plugin_scene(house, stage, folder)
    if registry.journal is not None:
        tell(RunReportStep(build_run_report(registry.journal, RUN_ID, house.workspace.effects.read_all())))
    tell(AccessStep(registry, tuple(house.agents)))


def _emit_change(event: AnyStateEvent, tell: StepCallback) -> None:
    if not isinstance(event, GrantSpent):  # every counted call spends; the call itself is told already
        tell(RegistryChangeStep(event))


def _approve_request(request: ApprovalRequest, tell: StepCallback) -> Allow:
    answer = Allow(by="operator", reason="the figures are checked")
    tell(ApprovalStep(request, answer))
    return answer


def _run_lending_scene(house: DemoApp, stage: AgentContext) -> None:
    stage.emit(SceneStep(1, "The librarian lends", "The raw rows are the librarian's. It lends them, within bounds."))
    house.agents["librarian"](stage)


def _run_refusal_scene(house: DemoApp, stage: AgentContext) -> None:
    stage.emit(SceneStep(2, "The analyst asks for too much", "A sample is within the bounds, everything is not."))
    house.agents["analyst"](stage)


def _run_late_tool_scene(house: DemoApp, stage: AgentContext) -> None:
    text = "The statistician lists fair_comparison, which nobody has declared."
    stage.emit(SceneStep(3, "A tool arrives late", text))
    for problem in house.registry.problems():
        stage.emit(RemarkStep(f"registry.problems(): {problem.message}"))
    statistician = house.agents["statistician"]
    before = tuple(statistician.list_tools())
    declare_fair_comparison(house.registry, house.workspace)
    stage.emit(ToolsetChangeStep("statistician", before, tuple(statistician.list_tools())))
    statistician(stage)


def _run_handover_scene(house: DemoApp, stage: AgentContext) -> Report:
    stage.emit(SceneStep(4, "Responsibility changes hands", "Only its owner may publish, and the analyst owns it."))
    registry, draft = house.registry, {"headline": "Draft", "findings": ["not checked yet"]}
    reporter, analyst = house.agents["reporter"], house.agents["analyst"]
    stage.try_call_as(reporter, "publish", **draft)
    if registry.search_tools("publish", owned_by="analyst"):  # else it was handed over before the process died
        registry.transfer_ownership("publish", "reporter", by="analyst", reason="the figures are checked")
    stage.try_call_as(analyst, "publish", **draft)
    report: Report = reporter(stage)
    return report
