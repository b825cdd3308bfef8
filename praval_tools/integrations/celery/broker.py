"""Speaks to the broker as Celery does: a message names a call, and nothing else of it travels there."""

from __future__ import annotations

from typing import Final

from celery import Celery

from praval_tools.execution.engines.errors import EngineError

RUN_ONCE: Final = "praval_tools.run_call"
"""The task of a call that is taken from the queue before it runs."""
RUN_AGAIN: Final = "praval_tools.run_idempotent_call"
"""The task of a call of an idempotent tool, which stays in the queue until it has run."""

_VISIBILITY_SECONDS: Final = 7 * 86_400
"""Of Redis: after which time a message that nobody acknowledged comes again; longer than any call takes."""
_CONNECT_SECONDS: Final = 4.0
_RETRY: Final = {"max_retries": 2, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.2}


def make_celery(broker: str) -> Celery:
    """Return Celery, set so that JSON alone travels, a worker takes one message at a time, and losses are seen."""
    app = Celery("praval_tools", broker=broker, set_as_current=False)
    is_redis = broker.startswith("redis")
    app.conf.update(
        task_serializer="json", accept_content=["json"], result_accept_content=["json"], task_ignore_result=True,
        task_store_errors_even_if_ignored=False, worker_prefetch_multiplier=1, task_track_started=False,
        broker_connection_timeout=_CONNECT_SECONDS, broker_connection_retry_on_startup=True,
        worker_redirect_stdouts=False, worker_hijack_root_logger=False, worker_send_task_events=False,
        broker_transport_options=(
            {"visibility_timeout": _VISIBILITY_SECONDS, "socket_connect_timeout": _CONNECT_SECONDS}
            if is_redis
            else {"confirm_publish": True}
        ),
    )  # fmt: skip
    return app


class Broker:
    """
    Sends messages to the workers; for any thread.

    Args:
        url: Of RabbitMQ or Redis.
    """

    def __init__(self, url: str) -> None:
        self._app = make_celery(url)

    def send(self, call_id: str, queue: str, *, is_idempotent: bool, seconds: float | None) -> None:
        """
        Tell the workers of *queue* of a call.

        Args:
            call_id: The call.
            queue: Of its tool.
            is_idempotent: Whether the message is acknowledged only after the call.
            seconds: How long the function may run until the worker kills it; None: for ever.

        Raises:
            EngineError: The broker cannot be reached.
        """
        try:
            self._app.send_task(
                RUN_AGAIN if is_idempotent else RUN_ONCE, (call_id,), task_id=call_id, queue=queue, ignore_result=True,
                argsrepr="", kwargsrepr="", time_limit=seconds, retry=True, retry_policy=_RETRY,
            )  # fmt: skip
        except Exception as error:  # each transport has errors of its own, such as for a login that is refused
            raise EngineError(f"The broker of the workers cannot be reached ({type(error).__name__}).") from error

    def kill(self, call_id: str) -> None:
        """Have the worker that runs a call kill it; where nobody hears it, the time limit of the message does."""
        try:
            self._app.control.revoke(call_id, terminate=True, signal="SIGKILL")
        except Exception:  # it is given up in the store: it changes nothing here any more
            return

    def close(self) -> None:
        """Close the connections."""
        self._app.close()
