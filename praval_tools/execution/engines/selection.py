"""Selects the engine of a call, the threads of the registry or an engine of a plugin, and submits the call to it."""

from __future__ import annotations

from typing import ClassVar

from praval_tools.execution.effects import RunTool
from praval_tools.execution.engines.jobs import Job
from praval_tools.execution.plugin_code import run_as_owner
from praval_tools.execution.runtime import Runtime
from praval_tools.names import describe_error, shorten_repr
from praval_tools.tools.call import Outcome


class EngineError(Exception):
    """A call could not be handed to its engine."""

    code: ClassVar[str] = "engine-lost"
    outcome: ClassVar[Outcome] = Outcome.ENGINE_LOST


class UnknownEngineError(EngineError):
    """There is no such engine; the function cannot have run."""

    code: ClassVar[str] = "unknown-engine"
    outcome: ClassVar[Outcome] = Outcome.TOOL_ERROR


def resolve_engine(runtime: Runtime, run: RunTool) -> str | None:
    """Return the engine of a call: that of the call itself, else of its tool, else of the registry."""
    own = run.call.engine
    return own if own is not None else run.tool.metadata.engine or runtime.options.engine


def submit_call(runtime: Runtime, run: RunTool) -> Job:
    """Return the call as a job of its engine: the threads of the registry, or a plugin's."""
    name = str(resolve_engine(runtime, run))
    if name in ("None", "inline", "thread"):
        return runtime.threads.submit(run.run)
    job, engine = Job(run.run), runtime.hooks.engines.get(name)
    if engine is None:
        subject = "This call of tool" if run.call.engine is not None else "Tool"
        fix = "which no loaded plugin brings; load that plugin."
        job.refuse(UnknownEngineError(f"{subject} {run.tool.name!r} runs on engine {shorten_repr(name)}, {fix}"))
        return job
    try:
        engine.submit(lambda: job.run() if job.claim() else None)
    except Exception as error:  # the seam to a plugin's engine: the result names the failure
        with run_as_owner(engine):  # its text may be code of the plugin
            text = describe_error(error)
        job.refuse(EngineError(f"Engine {name!r} did not take the call: {type(error).__name__}: {text}"))
    return job
