"""Carries the trace of a call, as OpenTelemetry knows it, to where its function runs: another process or machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping

from praval_tools.tools.plain_managers import plain_manager


def inject_trace_context(carrier: MutableMapping[str, str]) -> None:
    """
    Put the current trace into *carrier*, as the texts `traceparent` and `tracestate`; nothing where there is none.

    Baggage is not carried: it may hold anything. OpenTelemetry need not be installed.
    """
    try:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ModuleNotFoundError:
        return
    TraceContextTextMapPropagator().inject(carrier)


@plain_manager
def activate_trace_context(carrier: Mapping[str, str]) -> Iterator[None]:
    """
    Run the `with` block in the trace that *carrier* holds, if it holds one; what is wrong with it is ignored.

    OpenTelemetry need not be installed where the function runs.
    """
    outer = None
    if carrier:
        try:
            from opentelemetry import context
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ModuleNotFoundError:
            pass
        else:
            outer = context.get_current()
            context.attach(TraceContextTextMapPropagator().extract(carrier, outer))
    try:
        yield
    finally:
        if outer is not None:
            context.attach(outer)
