"""Selects the engine of a call, such as the threads of its registry, or workers, and submits the call there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from praval_tools.errors import MissingExtraError
from praval_tools.execution.effects import RunTool
from praval_tools.execution.engines.errors import EngineError, UnknownEngineError, UnreachableFunctionError
from praval_tools.execution.engines.jobs import Job
from praval_tools.execution.plugin_code import run_as_owner
from praval_tools.execution.runtime import Runtime
from praval_tools.names import describe_error, get_class_name, shorten_repr

REMOTE_ENGINES: Final = ("process", "celery")
"""The engines that run functions in other processes: of this machine, or workers anywhere."""

SERVED_OWNERS: Final[set[str | None]] = set()
"""In a process of a worker: whose tools it runs. Their calls run in it at once; it could wait for itself for ever."""

_remote_submitters: Final[dict[str, Callable[[RunTool], Job]]] = {}


def set_remote_submitter(engine: str, submit: Callable[[RunTool], Job]) -> None:
    """Have *submit* return calls as jobs of one of `REMOTE_ENGINES`; it imports that, which few programs need."""
    _remote_submitters[engine] = submit


def resolve_engine(runtime: Runtime, run: RunTool) -> str | None:
    """Return the engine of a call: that of the call itself, else of its tool, else of the registry."""
    own = _get_own_engine(run)
    engine = own if own is not None else runtime.options.engine
    return "thread" if engine == "celery" and run.tool.metadata.owned_by in SERVED_OWNERS else engine


def stays_on_loop(runtime: Runtime, run: RunTool) -> bool:
    """Tell whether an async tool is awaited on an event loop here: unless call or tool name another process."""
    return run.tool.is_async and (
        _get_own_engine(run) not in REMOTE_ENGINES or resolve_engine(runtime, run) not in REMOTE_ENGINES
    )


def _get_own_engine(run: RunTool) -> str | None:
    """Return the engine that the call names, else its tool."""
    return run.call.engine if run.call.engine is not None else run.tool.metadata.engine


def submit_call(runtime: Runtime, run: RunTool) -> Job:
    """Return the call as a job of its engine: the threads, processes or workers of the registry, or a plugin's."""
    name = str(resolve_engine(runtime, run))
    if name in REMOTE_ENGINES:
        return _submit_remotely(name, run)
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
    except (Exception, SystemExit) as error:  # the seam to a plugin's engine: the result names the failure
        with run_as_owner(engine):  # its text may be code of the plugin
            text = describe_error(error)
        job.refuse(EngineError(f"Engine {name!r} did not take the call: {get_class_name(type(error))}: {text}"))
    return job


def _submit_remotely(engine: str, run: RunTool) -> Job:
    try:
        return _remote_submitters[engine](run)
    except MissingExtraError as error:
        job = Job(run.run)
        job.refuse(UnreachableFunctionError(str(error)))
        return job
