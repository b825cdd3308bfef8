"""A loop that is begun again goes on where its record ends, and records every reply once."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from loop_rig import RAN, Run, add, post, registry, run  # noqa: F401

from praval_tools import (
    Agent,
    Allow,
    Deny,
    JournalError,
    Outcome,
    ReplayMismatchError,
    RunBusyError,
    Secret,
    ToolCall,
    ToolRegistry,
    ToolResult,
    ToolUsageError,
)
from praval_tools.formats import assistant_message, parse_tool_calls, result_messages
from praval_tools.journal import EventType
from praval_tools.journal.events import LoopBegan
from praval_tools.loop import (
    CallsEnded,
    ModelAnswered,
    StopReason,
    TextPiece,
    ToolLoop,
)
from praval_tools.testing import fake_model


def _flat(messages: Any) -> list[Any]:
    """Return the blocks of messages, and items as they are."""
    return [block for one in messages for block in (one["content"] if "content" in one else [one])]


class TestResume:
    def test_nothing_recorded_is_asked_for_again(self, registry: ToolRegistry, run: Run) -> None:
        """A run that ended gives its answer back without a model; one that broke off goes on from there."""
        script = [("add", {"x": 1}), ("add", {"x": 2})]
        with pytest.raises(KeyboardInterrupt):
            run(ToolLoop(registry.agent("ann"), fake_model(*script, KeyboardInterrupt())), "Go.", "r")
        model = fake_model("Three.")
        first = run(ToolLoop(registry.agent("ann"), model), "Go.", "r")
        again = run(ToolLoop(registry.agent("ann"), fake_model()), "Go.", "r")

        assert [(1, 0), (2, 0)] == RAN
        assert 1 == len(model.requests)
        assert first.messages == again.messages == (*model.requests[0].messages, {
            "role": "assistant", "content": "Three."})  # fmt: skip
        assert all(one.replayed for one in again.results)

    @pytest.mark.parametrize("answer", ["allow", "deny", "edit"])
    def test_an_approval(self, answer: str, registry: ToolRegistry, run: Run) -> None:
        """The loop pauses, a person answers by the call's id, and it goes on by the id of the run."""
        model = fake_model([("post", {"text": "a"}), ("add", {"x": 1})], "Done.")
        ended = run(ToolLoop(registry.agent("ann"), model), "Go.", "r")
        assert StopReason.APPROVAL_REQUIRED is ended.reason
        assert [(1, 0)] == RAN
        assert [one.tool_call_id for one in registry.approvals.pending()] == list(ended.waiting)

        said = {"allow": Allow(), "edit": Allow(arguments={"text": "b"}), "deny": Deny("no")}
        registry.approvals.answer(ended.waiting[0], said[answer])
        ended = run(ToolLoop(registry.agent("ann"), model), None, "r")

        assert "Done." == ended.text
        expected = {"allow": "posted a", "edit": "posted b", "deny": None}[answer]
        assert expected == ended.results[0].result
        assert 1 == sum(one == (1, 0) for one in RAN)
        assert 2 == len(model.requests)

    def test_a_handler_answers_at_once(self, registry: ToolRegistry, run: Run) -> None:
        """With an approval handler there is no pause."""
        registry.set_approval_handler(lambda asked: Allow() if asked.arguments["text"] == "a" else Deny("no"))
        model = fake_model([("post", {"text": "a"}), ("post", {"text": "b"})], "Done.")
        ended = run(ToolLoop(registry.agent("ann"), model))

        assert [Outcome.OK, Outcome.APPROVAL_DENIED] == [one.outcome for one in ended.results]
        assert ended.answered

    def test_a_call_in_doubt_waits_for_a_person(self, registry: ToolRegistry, run: Run) -> None:
        """A call that was stopped in the middle is not run again, and no model learns of it, until somebody decides."""

        @registry.tool("stop", shared=True)
        async def stop() -> str:
            """Stop whoever calls."""
            RAN.append("stop")
            raise KeyboardInterrupt

        script = fake_model(("stop",), "Done.")
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(ToolLoop(registry.agent("ann"), script).arun("Go.", "r"))
        ended = run(ToolLoop(registry.agent("ann"), script), None, "r")
        assert (StopReason.IN_DOUBT, ["stop"]) == (ended.reason, RAN)

        with registry.run("r") as opened:
            opened.resolve(ended.waiting[0], result="it did")
        ended = run(ToolLoop(registry.agent("ann"), script), None, "r")
        assert ("Done.", "it did", ["stop"]) == (ended.text, ended.results[0].result, RAN)

    def test_by_the_id_alone(self, registry: ToolRegistry) -> None:
        """`resume` knows what the conversation began with, instructions among it."""
        stopped = ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1})), max_steps=1, instructions="Hush.")
        assert not stopped.run("Go.", "r").answered
        model = fake_model("Done.", "Done.")
        assert "Done." == ToolLoop(registry.agent("ann"), model).resume("r").text
        assert ("Hush.", "Go.") == (model.requests[0].instructions, model.requests[0].messages[0]["content"])
        with pytest.raises(ToolUsageError, match="has no loop"):
            ToolLoop(registry.agent("ann"), model).resume("other")
        with pytest.raises(ToolUsageError, match="has no loop"):
            asyncio.run(ToolLoop(registry.agent("bob"), model).aresume("r"))

    def test_another_conversation_under_the_same_id_is_refused(self, registry: ToolRegistry, run: Run) -> None:
        """The run is not continued with what it did not begin with."""
        run(ToolLoop(registry.agent("ann"), fake_model("One.")), "Go.", "r")
        with pytest.raises(ReplayMismatchError, match="begins with"):
            run(ToolLoop(registry.agent("ann"), fake_model("Two.")), "Stay.", "r")

    @pytest.mark.parametrize("api_format", ["openai-responses", "anthropic"])
    def test_another_provider_takes_over(self, api_format: str, registry: ToolRegistry, run: Run) -> None:
        """What one model wrote in its format goes to the next in the next one's."""
        stopped = ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1})), max_steps=1)
        stopped.run("Go.", "r")
        model = fake_model("One.", api_format=api_format)
        ended = run(ToolLoop(registry.agent("ann"), model), None, "r")
        said = model.requests[0].messages

        assert ("One.", [(1, 0)]) == (ended.text, RAN)
        assert ["call_1"] == [one.tool_call_id for one in parse_tool_calls(api_format, _flat(said[1:]))]
        assert result_messages(api_format, [ToolResult("call_1", "add", result=1)]) == said[-1:]

    def test_after_a_tool_is_gone(self, registry: ToolRegistry, run: Run) -> None:
        """What it did is recorded, so the conversation goes on without it."""
        ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1})), max_steps=1).run("Go.", "r")
        registry.unregister_tool("add")
        model = fake_model(("add", {"x": 2}), "Done.")
        ended = run(ToolLoop(registry.agent("ann"), model), None, "r")

        assert [Outcome.OK, Outcome.UNKNOWN_TOOL] == [one.outcome for one in ended.results]
        assert ["post"] == [one["function"]["name"] for one in model.requests[0].tools]
        assert [(1, 0)] == RAN

    def test_many_tasks_at_once(self, registry: ToolRegistry) -> None:
        """Sixty-four loops at the same time, in one run, get their own results, and get them again."""

        async def one(at: int, *script: Any) -> tuple[str, Any]:
            ended = await ToolLoop(registry.agent("ann"), fake_model(*script)).arun(f"Go {at}.")
            return ended.text, ended.results[0].result

        async def all_of(scripts: list[Any]) -> list[Any]:
            with registry.run("r"):
                return await asyncio.gather(*(one(at, *script) for at, script in enumerate(scripts)))

        first = asyncio.run(all_of([(("add", {"x": at}), f"It is {at}.") for at in range(64)]))
        again = asyncio.run(all_of([()] * 64))

        assert [(f"It is {at}.", at) for at in range(64)] == first == again
        assert 64 == len(RAN)

    def test_two_at_once_in_one_run_are_refused(self, registry: ToolRegistry) -> None:
        """A run is open in one place at a time."""
        events = ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1}), "One.")).stream("Go.", "r")
        next(events)
        with pytest.raises(RunBusyError):
            ToolLoop(registry.agent("ann"), fake_model("One.")).run("Go.", "r")
        events.close()
        assert ToolLoop(registry.agent("ann"), fake_model("One.")).run("Go.", "r").answered

    def test_calls_of_the_caller_between_two_events_are_outside_of_the_run(self, registry: ToolRegistry) -> None:
        """Calls that are made while a stream is read are not recorded in its run."""
        for event in ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1}), "One.")).stream("Go.", "r"):
            if isinstance(event, ModelAnswered | CallsEnded | TextPiece):
                registry.agent("bob").execute(ToolCall(None, "add", {"x": 9}))

        assert ["ann"] == [one.agent for one in registry.journal.calls("r")]

    def test_several_loops_in_one_run(self, registry: ToolRegistry) -> None:
        """In an open run each loop finds its own record, equal ones in their order."""

        def program(*models: Any) -> list[str]:
            with registry.run("r"):
                return [ToolLoop(registry.agent(name), model).run(prompt).text for name, prompt, model in zip(
                    ["ann", "ann", "bob", "ann"], ["Go.", "Go.", "Go.", "Stay."], models, strict=True)]  # fmt: skip

        first = program(*(fake_model(("add", {"x": at}), f"Answer {at}.") for at in range(4)))
        again = program(*(fake_model() for _ in range(4)))

        assert ["Answer 0.", "Answer 1.", "Answer 2.", "Answer 3."] == first == again
        assert 4 == len(RAN)

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_loop_inside_of_a_tool(self, registry: ToolRegistry, is_async: bool) -> None:
        """An agent whose tool is another agent: the inner loop is of the same run, below the call."""
        inner = fake_model(("add", {"x": 2}), "Two.")

        @registry.tool("ask_bob", owned_by="ann")
        def ask_bob(question: str) -> str:
            """Ask Bob."""
            return ToolLoop(registry.agent("bob"), inner).run(question).text

        outer = lambda: fake_model(("ask_bob", {"question": "What?"}), "Bob says two.")
        loop = ToolLoop(registry.agent("ann"), outer())
        first = asyncio.run(loop.arun("Go.", "r")) if is_async else loop.run("Go.", "r")
        calls = {one.tool_name: one for one in registry.journal.calls("r")}

        assert ("Bob says two.", [(2, 0)]) == (first.text, RAN)
        assert calls["add"].parent_id == calls["ask_bob"].tool_call_id
        assert 1 == len(list(registry.journal.runs()))
        assert "Bob says two." == ToolLoop(registry.agent("ann"), fake_model()).run("Go.", "r").text
        assert 2 == len(inner.requests)

    def test_delegated_agents_keep_their_chain(self, registry: ToolRegistry) -> None:
        """A loop of a sub-agent calls on behalf of whom it acts for."""
        helper = Agent("boss", registry=registry).delegate("helper")
        ToolLoop(helper, fake_model(("add", {"x": 1}), "One.")).run("Go.", "r")
        (event,) = registry.journal.events(type="agent_tool_call")

        assert ("helper", ("boss",)) == (event.agent, event.chain)


class TestJournal:
    def test_it_tells_the_conversation(self, registry: ToolRegistry) -> None:
        """The beginning, each reply and each call are events of the run, in order."""
        ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1}), "One.")).run("Go.", "r")
        kinds = [one.type for one in registry.journal.events(run_id="r")]
        began, *_, answered = registry.journal.events(run_id="r")

        assert [EventType.LOOP_BEGAN, EventType.MODEL_REPLIED, EventType.AGENT_TOOL_CALL, EventType.AGENT_TOOL_RESULT,
                EventType.MODEL_REPLIED] == kinds  # fmt: skip
        assert ("ann", "fake", "Go.") == (began.agent, began.model, began.input["messages"][0]["content"])
        assert (2, "One.", began.id) == (answered.step, answered.reply["text"], answered.loop_id)

    @pytest.mark.parametrize(
        ("prompt", "arguments", "secret"),
        [
            ("Go.", {"word": "open-sesame"}, "open-sesame"),
            ("Go.", {"password": "open-sesame"}, "open-sesame"),
            ("Use password=open-sesame.", {}, "open-sesame"),
            ("Go.", {}, "tok-of-the-result"),
            ("Go.", {}, "marked-in-the-result"),
        ],
        ids=["mark", "name", "prompt", "name in a result", "mark in a result"],
    )
    def test_later_replies_quote_no_secrets(self, prompt: str, arguments: dict[str, str], secret: str) -> None:
        """Broken promise: what a model wrote of the secrets of an earlier call stood in its recorded reply."""

        @dataclass
        class Session:
            token: str
            key: Annotated[str, Secret]

        with ToolRegistry(journal="memory") as registry:

            @registry.tool("open", shared=True)
            def open_session(word: Annotated[str, Secret] = "", password: str = "") -> Session:
                """Open."""
                return Session("tok-of-the-result", "marked-in-the-result")

            model = fake_model(("open", arguments), f"I have {secret} now.")
            result = ToolLoop(registry.agent("ann"), model).run(prompt, "r")
            written = [str(event) for event in registry.journal.events(type="model_replied")]

        assert secret in result.text
        assert "I have [secret " in written[-1] and secret not in "".join(written)

    def test_secrets_are_not_in_it_and_the_tool_gets_them(self, tmp_path: Path, run: Run) -> None:
        """
        What a tool's schema or a key's name marks as secret is hidden in replies, too.

        A run that ended is given back all the same; one that was stopped before the call asks the model again,
        since the secret is nowhere else.
        """

        def registry_here() -> ToolRegistry:
            made = ToolRegistry(journal=tmp_path / "runs.db")

            @made.tool("log_in", shared=True)
            def log_in(user: str, word: Annotated[str, Secret]) -> str:
                """Log in."""
                RAN.append(word)
                return f"hello {user}"

            return made

        RAN.clear()
        reply = [("log_in", {"user": "ann", "word": "open-sesame"})]
        with registry_here() as registry:
            with pytest.raises(ZeroDivisionError):

                class Stopped(ToolLoop):
                    """One whose driver dies between the reply and the call."""

                events = Stopped(registry.agent("ann"), fake_model(reply)).stream("Go.", "r")
                for event in events:
                    if isinstance(event, ModelAnswered):
                        events.throw(ZeroDivisionError)
            model = fake_model(reply, "In.")
            assert "In." == run(ToolLoop(registry.agent("ann"), model), "Go.", "r").text
            assert 2 == len(model.requests)
        with registry_here() as registry:
            again = run(ToolLoop(registry.agent("ann"), fake_model()), "Go.", "r")

        assert ["open-sesame"] == RAN
        assert ("In.", "hello ann") == (again.text, again.results[0].result)
        assert b"open-sesame" not in b"".join(one.read_bytes() for one in tmp_path.glob("runs.db*") if one.is_file())

    @pytest.mark.parametrize("api_format", ["openai-chat", "anthropic"])
    @pytest.mark.parametrize("pin", ["~7~", 42, ["~7~", "a-long-secret"], 'q"~ü~\\'])
    def test_secrets_of_any_size_are_not_in_a_reply(self, pin: Any, api_format: str, registry: ToolRegistry) -> None:
        """A number of two digits is one, too; what the provider sent around it is left out then."""

        def unlock(pin: Annotated[Any, Secret]) -> str:
            """Unlock."""
            RAN.append(pin)
            return "open"

        unlock.__annotations__["pin"] = Annotated[{str: str, int: int, list: list[str]}[type(pin)], Secret]
        registry.tool("unlock", shared=True)(unlock)
        call = ToolCall("1", "unlock", json.dumps({"pin": pin}))
        message = assistant_message(api_format, [call])
        reply = message if api_format == "anthropic" else {"choices": [{"message": message}]}
        ToolLoop(registry.agent("ann"), fake_model(reply, "In.", api_format=api_format)).run("Go.", "r")
        kept = re.sub(r"\[secret [0-9a-f]{32}\]", "", repr([one.reply for one in registry.journal.events(
            type="model_replied")]))  # fmt: skip
        again = ToolLoop(registry.agent("ann"), fake_model(api_format=api_format)).run("Go.", "r")

        assert [pin] == RAN
        assert "In." == again.text
        assert not [one for one in ("~7~", "42", "a-long-secret", "~ü~", "~\\u00fc~") if one in kept]

    def test_a_secret_call_that_waits_for_a_person(self, registry: ToolRegistry, run: Run) -> None:
        """
        The model is asked once more for what the journal does not keep; the approval holds for the same call.

        Once the call is made, its reply is as good as any other.
        """

        @registry.tool("wire", shared=True, requires_approval=True)
        def wire(to: str, pin: Annotated[str, Secret]) -> str:
            """Send money."""
            RAN.append(to)
            return "sent"

        call = lambda name, to: ToolCall(name, "wire", {"to": to, "pin": "99887766"})
        model = fake_model(call("a", "ann"), call("b", "ann"), call("c", "bob"), call("d", "bob"), "Done.")
        loop = ToolLoop(registry.agent("ann"), model)
        ended = run(loop, "Go.", "r")
        for _ in range(2):
            assert StopReason.APPROVAL_REQUIRED is ended.reason
            registry.approvals.answer(ended.waiting[0], Allow())
            ended = run(loop, None, "r")

        assert ("Done.", ["ann", "bob"], 5) == (ended.text, RAN, len(model.requests))

    def test_a_prompt_with_secrets_is_asked_for_again(self, registry: ToolRegistry) -> None:
        """It is not kept, so the id alone is not enough; with the prompt it goes on."""
        prompt = "Use password=hunter2hunter2 for it."
        ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1})), max_steps=1).run(prompt, "r")
        with pytest.raises(ToolUsageError, match="holds secrets"):
            ToolLoop(registry.agent("ann"), fake_model("Done.")).resume("r")

        assert ToolLoop(registry.agent("ann"), fake_model("Done.")).run(prompt, "r").answered
        assert "hunter2" not in str(list(registry.journal.events()))

    def test_a_prompt_with_another_secret_is_another_one(self, registry: ToolRegistry) -> None:
        """Neither the journal nor the error tells it, also not to somebody who tries passwords on the rest of it."""
        digests = set()
        for _ in range(2):
            with ToolRegistry(journal="memory") as other:
                prompt = [{"role": "user", "content": "Hi.", "password": "4711"}]
                ToolLoop(Agent("ann", registry=other), fake_model("Done.")).run(prompt, "r")
                digests |= {one.digest for one in other.journal.events(type="loop_began") if isinstance(one, LoopBegan)}
        ToolLoop(registry.agent("ann"), fake_model("Done.")).run("Use password=hunter2hunter2 for it.", "r")
        with pytest.raises(ReplayMismatchError) as caught:
            ToolLoop(registry.agent("ann"), fake_model("Done.")).run("Use password=swordfish22 for it.", "r")

        assert 2 == len(digests)  # each journal has a key of its own
        assert "swordfish" not in str(caught.value) and "hunter2" not in str(caught.value)

    def test_a_reply_that_cannot_be_written_stops_the_loop(self, registry: ToolRegistry, run: Run) -> None:
        """Nothing is called that the journal does not know of."""
        store, broken = registry.journal.store, [True]
        append, aappend = store.append, store.aappend

        def refuse(items: Any) -> None:
            if broken[0] and items[0].records[0].type == "model_replied":
                raise JournalError("memory", "it is full", "Make room.")

        store.append = lambda items: (refuse(items), append(items))[1]
        store.aappend = lambda items: (refuse(items), aappend(items))[1]
        with pytest.raises(JournalError):
            run(ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1}))), "Go.", "r")
        assert [] == RAN

        broken[0] = False
        assert run(ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1}), "One.")), "Go.", "r").answered

    def test_replies_are_not_asked_of_a_model_that_is_gone(self, registry: ToolRegistry) -> None:
        """A thousand replies are replayed without one request, and quickly found."""
        script = [("add", {"x": at}) for at in range(200)]
        ToolLoop(registry.agent("ann"), fake_model(*script, "Done."), 300, None).run("Go.", "r")
        started = time.process_time()
        ended = ToolLoop(registry.agent("ann"), fake_model(), 300, None).run("Go.", "r")

        assert (201, "Done.") == (ended.steps, ended.text)
        assert time.process_time() - started < 30
        assert 200 == len(RAN)
