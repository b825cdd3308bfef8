"""Cancelling and closing a loop, in sync and in async code."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from loop_rig import registry  # noqa: F401

from praval_tools import (
    ModelError,
    ToolCall,
    ToolRegistry,
)
from praval_tools.loop import (
    ModelReply,
    ToolLoop,
)
from praval_tools.testing import fake_model


class TestCancelling:
    def test_cancelling_cancels_the_calls(self, registry: ToolRegistry) -> None:
        """The task is cancelled, so are the tools that it waits for, and the run is left."""
        state: list[str] = []

        @registry.tool("wait", shared=True)
        async def wait() -> None:
            """Wait for ever."""
            state.append("begun")
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                state.append("cancelled")
                raise

        async def main() -> None:
            loop = ToolLoop(registry.agent("ann"), fake_model([("wait",), ("wait",)]))
            task = asyncio.create_task(loop.arun("Go.", "r"))
            while state.count("begun") < 2:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert ["begun", "begun", "cancelled", "cancelled"] == state
        with registry.run("r") as opened:
            assert 2 == len(opened.in_doubt)

    @pytest.mark.parametrize("turns", range(20))
    def test_cancelled_at_any_point_it_goes_on(self, turns: int) -> None:
        """Wherever the task stops, the run goes on from there: each reply recorded once, each call made, none lost."""

        class Own:
            async def reply(self, request: Any) -> Any:
                async def pieces() -> Any:
                    await asyncio.sleep(0)
                    if request.step == 3:
                        yield "Done."
                    else:
                        yield ModelReply(calls=tuple(ToolCall(name, "grow", {"x": request.step}) for name in "ab"))

                return pieces()

        async def main() -> None:
            with ToolRegistry(journal="memory") as registry:

                @registry.tool("grow", shared=True)
                async def grow(x: int) -> int:
                    """Grow."""
                    await asyncio.sleep(0)
                    return x + 1

                loop = ToolLoop(registry.agent("ann"), Own())
                task = asyncio.create_task(loop.arun("Go.", "r"))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                with registry.run("r") as opened:
                    for call in opened.in_doubt:
                        opened.resolve(call.tool_call_id, rerun=True)
                ended = await loop.arun("Go.", "r")

                assert ("Done.", [2, 2, 3, 3]) == (ended.text, [one.result for one in ended.results])
                assert [1, 2, 3] == [one.step for one in registry.journal.events(type="model_replied")]

        asyncio.run(main())

    def test_a_closed_registry_ends_a_wait(self) -> None:
        """Closing the registry does not wait for a provider's pause."""
        registry = ToolRegistry()
        model = fake_model(ModelError("busy", True, 50.0), "Yes.")
        errors: list[BaseException] = []

        def run_loop() -> None:
            try:
                ToolLoop(registry.agent("ann"), model).run("Go.")
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=run_loop)
        thread.start()
        while not model.requests:
            time.sleep(0.001)
        registry.close()
        thread.join(20)

        assert not thread.is_alive()
        assert "RegistryClosedError" == type(errors[0]).__name__
