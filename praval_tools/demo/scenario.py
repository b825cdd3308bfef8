"""Runs the demo's scenario of four scenes; in one process, or resumed by further processes after a crash."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from praval_tools.access.events import AnyStateEvent, GrantSpent
from praval_tools.demo import plugin_scene, steps
from praval_tools.demo.agents import AGENT_DESCRIPTIONS, AgentContext
from praval_tools.demo.app import DemoApp, build_app
from praval_tools.demo.effects import CrashPoint, EffectLog
from praval_tools.demo.question import Question
from praval_tools.demo.resume import ReplayFilter, resolve_doubts
from praval_tools.demo.run_report import build_run_report
from praval_tools.demo.steps import SceneStep, StepCallback
from praval_tools.demo.tools import Report, declare_fair_comparison
from praval_tools.tools.decision import Allow, ApprovalRequest
from praval_tools.tools.reports import ToolLog, ToolProgress

RUN_ID = "demo"
"""The id of the run in the journal."""


@frozen(kw_only=True)
class RunFiles:
    """
    Where the demo records what happened.

    Args:
        journal: The journal's file.
        effects: The file with a line per effect.
        crash_point: Where the process crashes, if it does.
    """

    journal: Path
    effects: Path
    crash_point: CrashPoint | None = None


def run_demo(question: Question, emit: StepCallback, run_files: RunFiles | None = None) -> None:
    """
    Run the whole scenario; every step is emitted as it happens.

    Args:
        question: What the agents are to find out.
        emit: Is called with each step.
        run_files: Where the run is recorded, and resumed after a crash; None: everything stays in memory.
    """
    if run_files is None:
        app = build_app(question)
        with app.registry:
            _run_scenes(app, question, emit)
        return
    effects = EffectLog(run_files.effects, run_files.crash_point)
    app = build_app(question, journal=run_files.journal, effects=effects)
    with app.registry, app.registry.run(RUN_ID) as run:
        is_resumed = bool(run.calls)
        doubtful_call_ids = frozenset(resolve_doubts(run, app, emit))
        step_filter = ReplayFilter(emit, doubtful_call_ids) if is_resumed else emit
        _run_scenes(app, question, step_filter, run_files.journal.parent)


def _run_scenes(app: DemoApp, question: Question, emit: StepCallback, folder: Path | None = None) -> None:
    context, registry = AgentContext(question, app.registry, emit), app.registry
    registry.set_approval_handler(lambda request: _approve_request(request, emit))
    emit(steps.OpeningStep(question, AGENT_DESCRIPTIONS))
    registry.subscribe(lambda event: _emit_change(event, emit))
    emit(SceneStep(1, "The librarian lends", "The raw rows are the librarian's. It lends them, within bounds."))
    app.agents["librarian"](context)
    emit(SceneStep(2, "The analyst asks for too much", "A sample is within the bounds, everything is not."))
    app.agents["analyst"](context)
    _run_late_tool_scene(app, context)
    report = _run_handover_scene(app, context)
    emit(steps.AnswerStep(question, report, context.groups, context.common_words))
    if folder is not None and plugin_scene.is_package_available():
        plugin_scene.run_plugin_scene(app, context, folder)
    if registry.journal is not None:
        effects = app.workspace.effects.read_all()
        emit(steps.RunReportStep(build_run_report(registry.journal, RUN_ID, effects)))
    emit(steps.AccessStep(registry, tuple(app.agents)))


def _emit_change(event: AnyStateEvent | ToolProgress | ToolLog, emit: StepCallback) -> None:
    # every counted call spends; the call itself is a step already
    if not isinstance(event, GrantSpent | ToolProgress | ToolLog):
        emit(steps.RegistryChangeStep(event))


def _approve_request(request: ApprovalRequest, emit: StepCallback) -> Allow:
    answer = Allow(by="operator", reason="the figures are checked")
    emit(steps.ApprovalStep(request, answer))
    return answer


def _run_late_tool_scene(app: DemoApp, context: AgentContext) -> None:
    text = "The statistician lists fair_comparison, which nobody has declared."
    context.emit(SceneStep(3, "A tool arrives late", text))
    for problem in app.registry.problems():
        context.emit(steps.RemarkStep(f"registry.problems(): {problem.message}"))
    statistician = app.agents["statistician"]
    before = tuple(statistician.list_tools())
    declare_fair_comparison(app.registry, app.workspace)
    context.emit(steps.ToolsetChangeStep("statistician", before, tuple(statistician.list_tools())))
    statistician(context)


def _run_handover_scene(app: DemoApp, context: AgentContext) -> Report:
    context.emit(SceneStep(4, "Responsibility changes hands", "Only its owner may publish, and the analyst owns it."))
    registry, reporter, analyst = app.registry, app.agents["reporter"], app.agents["analyst"]
    context.try_call_as(reporter, "publish", headline="Draft", findings=["not checked yet"])
    if registry.search_tools("publish", owned_by="analyst"):  # otherwise an earlier process transferred it
        registry.transfer_ownership("publish", "reporter", by="analyst", reason="the figures are checked")
    context.try_call_as(analyst, "publish", headline="Draft", findings=["not checked yet"])
    report: Report = reporter(context)
    return report
