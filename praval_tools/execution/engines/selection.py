"""Selects the engine of a call, threads or processes of the registry or an engine of a plugin, and submits it there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from praval_tools.execution.effects import RunTool
from praval_tools.execution.engines.errors import EngineError, UnknownEngineError
from praval_tools.execution.engines.jobs import Job
from praval_tools.execution.plugin_code import run_as_owner
from praval_tools.execution.runtime import Runtime
from praval_tools.names import describe_error, shorten_repr

_remote_submitters: Final[list[Callable[[RunTool], Job]]] = []


def set_remote_submitter(submit: Callable[[RunTool], Job]) -> None:
    """Have *submit* return calls as jobs of the process engine; it imports that, which few programs need."""
    _remote_submitters[:] = [submit]


def resolve_engine(runtime: Runtime, run: RunTool) -> str | None:
    """Return the engine of a call: that of the call itself, else of its tool, else of the registry."""
    own = run.call.engine
    return own if own is not None else run.tool.metadata.engine or runtime.options.engine


def stays_on_loop(runtime: Runtime, run: RunTool) -> bool:
    """Tell whether an async tool is awaited on an event loop here: unless the call, or the tool, says `process`."""
    own = run.call.engine if run.call.engine is not None else run.tool.metadata.engine
    return run.tool.is_async and own != "process"


def submit_call(runtime: Runtime, run: RunTool) -> Job:
    """Return the call as a job of its engine: the threads or processes of the registry, or a plugin's."""
    name = str(resolve_engine(runtime, run))
    if name == "process":
        return _remote_submitters[0](run)
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
