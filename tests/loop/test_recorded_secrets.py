"""What a loop records of its prompt and of the model's replies holds no secrets, and can be gone on with."""

# Tests of: runs/conversation_secrets, formats/past_messages

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, make_dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel, SecretStr

from praval_tools import Deny, Secret, ToolCall, ToolRegistry, ToolUsageError
from praval_tools.formats import FORMATS, Format, assistant_message, result_messages
from praval_tools.formats.past_messages import read_past_calls, read_past_results
from praval_tools.loop import ModelReply, ToolLoop
from praval_tools.testing import fake_model
from praval_tools.tools.call import Outcome, ToolResult

FORMAT_NAMES = ["openai-chat", "openai-responses", "anthropic", "gemini"]
WORDS_OF_RECORDS = [
    "calls", "call", "call_", "text", "name", "stop", "arguments", "messages", "mail", "role", "content", "type",
    "instructions", "usage", "format", "tool_calls", "function",
]  # fmt: skip
RAN: list[str] = []


def mail(to: str) -> str:
    """Send a letter."""
    RAN.append(to)
    return "sent"


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """A registry with a journal, and a tool that sends letters, to whom is in `RAN`."""
    RAN.clear()
    with ToolRegistry(journal="memory") as made:
        made.tool("mail", shared=True)(mail)
        yield made


def read_journal(registry: ToolRegistry, run_id: str | None = None) -> str:
    """Return what the journal says of loops."""
    events = registry.journal.events(run_id=run_id)
    return "".join(str(event) for event in events if event.type in ("loop_began", "model_replied"))


def make_reply(api_format: str, call: ToolCall) -> Any:
    """Return a provider's reply with a call."""
    message = assistant_message(api_format, [call])
    wrapped: dict[str, Callable[[], Any]] = {
        "openai-chat": lambda: {"choices": [{"message": message}]},
        "openai-responses": lambda: {"output": message},
        "gemini": lambda: {"candidates": [{"content": message, "finish_reason": "STOP"}]},
    }
    return wrapped.get(api_format, lambda: message)()


class TestSecretsThatAreWordsOfTheRecord:
    """Broken promise: they were hidden in the record's own keys, names and ids, so that the loop could not go on."""

    @pytest.mark.parametrize("api_format", FORMAT_NAMES)
    @pytest.mark.parametrize("word", WORDS_OF_RECORDS)
    @pytest.mark.parametrize("place", ["argument", "prompt", "result"])
    def test_a_loop_goes_on_where_it_ended(
        self, place: str, word: str, api_format: str, registry: ToolRegistry
    ) -> None:
        """No recorded reply is asked for again, and no call is made again."""

        @registry.tool("log_in", shared=True)
        def log_in(user: str, password: str = "") -> dict[str, str]:
            """Log in."""
            return {"token": word} if place == "result" else {}

        prompt = f"Go. password: {word}" if place == "prompt" else "Go."
        password = {"password": word} if place == "argument" else {}
        replies = [
            make_reply(api_format, ToolCall("call_1", "log_in", {"user": "ann", **password})),
            make_reply(api_format, ToolCall("call_2", "mail", {"to": "bob"})),
        ]
        with pytest.raises(KeyboardInterrupt):
            broken = fake_model(*replies, KeyboardInterrupt(), api_format=api_format)
            ToolLoop(registry.agent("ann"), broken).run(prompt, "r")
        model = fake_model("Done.", api_format=api_format)
        result = ToolLoop(registry.agent("ann"), model).run(prompt, "r")

        assert ("Done.", ["bob"], 1) == (result.text, RAN, len(model.requests))
        assert ["log_in", "mail"] == [one.name for one in result.results]

    @pytest.mark.parametrize("word", WORDS_OF_RECORDS)
    def test_keys_stay_readable(self, word: str, registry: ToolRegistry) -> None:
        """Those that the record defines, also in a prompt, which has to be given again all the same."""
        loop = ToolLoop(registry.agent("ann"), fake_model(("mail", {"to": f"the {word}"}), "Done."))
        loop.run(f"Go. password: {word}", "r")
        began, replied, *_ = (one for one in registry.journal.events() if one.type in ("loop_began", "model_replied"))

        assert ["instructions", "messages"] == list(began.input)
        assert ["text", "calls", "messages", "stop", "usage", "format"] == list(replied.reply)
        assert ["id", "name", "arguments", "reason"] == list(replied.reply["calls"][0])
        assert "the [secret " in replied.reply["calls"][0]["arguments"]["to"]
        assert "[secret " in str(began.input) and began.masked
        with pytest.raises(ToolUsageError, match="holds secrets"):
            loop.resume("r")

    def test_keys_of_arguments_do_not(self, registry: ToolRegistry) -> None:
        """They are the model's own."""
        call = ToolCall("c", "mail", {"to": "bob", "opensesame": 1}, reason="I know opensesame.")
        ToolLoop(registry.agent("ann"), fake_model([call], "Done.")).run("password: opensesame", "r")

        assert "opensesame" not in read_journal(registry)

    @pytest.mark.parametrize("api_format", FORMAT_NAMES)
    def test_providers_messages_stay_where_they_can(self, api_format: str, registry: ToolRegistry) -> None:
        """Those with a secret among what the model wrote freely are kept without it."""
        reply = make_reply(api_format, ToolCall("c", "mail", {"to": "opensesame"}))
        ToolLoop(registry.agent("ann"), fake_model(reply, "Done.", api_format=api_format)).run(
            "password: opensesame", "r"
        )
        replied = next(iter(registry.journal.events(type="model_replied")))

        assert "[secret " in str(replied.reply["messages"]) and "opensesame" not in str(replied.reply)

    def test_a_thought_that_the_provider_signed_is_left_out(self, registry: ToolRegistry) -> None:
        """It would not be accepted after a change."""
        thought = {"type": "thinking", "thinking": "The password is opensesame.", "signature": "c2ln"}
        reply = {
            "role": "assistant",
            "content": [thought, {"type": "text", "text": "Done."}],
            "stop_reason": "end_turn",
        }
        ToolLoop(registry.agent("ann"), fake_model(reply, api_format="anthropic")).run("password: opensesame", "r")
        (replied,) = registry.journal.events(type="model_replied")

        assert ("Done.", []) == (replied.reply["text"], replied.reply["messages"])

    def test_arguments_in_bytes(self, registry: ToolRegistry) -> None:
        """They are read as the JSON that they are, also when the loop goes on."""
        call = ToolCall("c", "mail", b'{"to": "bob", "password": "opensesame"}')
        model = fake_model([call], "I know opensesame.", "Done.")
        ToolLoop(registry.agent("ann"), model).run("Go.", "r")

        assert "opensesame" not in read_journal(registry)
        with pytest.raises(KeyboardInterrupt):
            waiting = fake_model([ToolCall("c", "mail", b'{"to": "cy"}')], KeyboardInterrupt())
            ToolLoop(registry.agent("ann"), waiting).run("Go.", "s")
        assert ToolLoop(registry.agent("ann"), fake_model("Done.")).resume("s").answered
        assert ["cy"] == RAN

    @pytest.mark.parametrize(
        "arguments",
        [
            '{"card": "zq7x91kk',
            "{'card': 'zq7x91kk'}",
            '{"card": "zq7x91kk",}',
            '{"to": {"card": "zq7x91kk"',
            "card=zq7x91kk",
        ],
    )
    def test_arguments_that_are_no_json(self, arguments: str, registry: ToolRegistry) -> None:
        """What the model says of them later does not quote the values of marked parameters."""

        @registry.tool("pay", shared=True)
        def pay(card: Annotated[str, Secret]) -> None:
            """Pay."""

        function = {"name": "pay", "arguments": arguments}
        calls = [{"id": "c", "type": "function", "function": function}]
        reply = {"choices": [{"message": {"role": "assistant", "tool_calls": calls}}]}
        ToolLoop(registry.agent("ann"), fake_model(reply, "zq7x91kk was cut off.")).run("Go.")

        assert "zq7x91kk" not in "".join(map(str, registry.journal.events()))


@dataclass
class Receipt:
    """A result with a secret."""

    code: Annotated[str, Secret]


class TestConversationsThatGoOnInAnotherRun:
    """Broken promise: the prompt was searched by names alone, so that marked values of earlier calls stood in it."""

    @pytest.mark.parametrize("think_augment", [False, True])
    @pytest.mark.parametrize("api_format", FORMAT_NAMES)
    @pytest.mark.parametrize(
        ("card", "code"),
        [("zq7xargument", "kk8yresult"), ("~7~", "kk8yresult"), ("zq7xargument", "~8~"), ('q"~ü~\\xyz', "~8~ü~")],
    )
    def test_quote_no_marked_secret(
        self, card: str, code: str, api_format: str, think_augment: bool, registry: ToolRegistry
    ) -> None:
        """Neither the prompt of the later run, nor what the model says in it."""

        @registry.tool("pay", shared=True)
        def pay(card: Annotated[str, Secret]) -> Receipt:
            """Pay."""
            return Receipt(code)

        def make_loop(*replies: Any) -> ToolLoop:
            model = fake_model(*replies, api_format=api_format)
            return ToolLoop(registry.agent("ann"), model, think_augment=think_augment)

        reason = {"toolcall_reason": "As asked."} if think_augment else {}
        first = make_loop(make_reply(api_format, ToolCall("c", "pay", {"card": card, **reason})), "Paid.")
        earlier = first.run("Go.", "first")
        quotes = " and ".join(one for one in (card, code) if len(one) > 3)
        loop = make_loop(f"It was {quotes}.")
        later = loop.run("And again?", "second", history=earlier)
        written = read_journal(registry)

        assert f"It was {quotes}." == later.text
        assert "It was [secret " in read_journal(registry, "second")
        assert not [one for one in ("zq7x", "kk8y", "~7~", "~8~", "~ü~", "~\\u00fc~") if one in written]
        assert loop.run("And again?", "second", history=earlier).answered
        with pytest.raises(ToolUsageError, match="holds secrets"):
            loop.resume("second")

    @pytest.mark.parametrize("api_format", FORMAT_NAMES)
    @pytest.mark.parametrize(
        "hint", [Annotated[str, Secret], list[Annotated[str, Secret]], dict[str, Annotated[str, Secret]]]
    )
    def test_quote_no_result_of_a_marked_type(self, hint: Any, api_format: str, registry: ToolRegistry) -> None:
        """It may be text, or JSON."""

        def find_code() -> Any:
            """Return it."""
            return {list: ["kk8yresult"], dict: {"a": "kk8yresult"}}.get(
                getattr(hint, "__origin__", None), "kk8yresult"
            )

        find_code.__annotations__["return"] = hint
        registry.tool("find_code", shared=True)(find_code)
        earlier = ToolLoop(registry.agent("ann"), fake_model(("find_code", {}), "Found.", api_format=api_format)).run(
            "Go.", "first"
        )
        again = fake_model("It was kk8yresult.", api_format=api_format)
        ToolLoop(registry.agent("ann"), again).run("Which?", "second", history=earlier)

        assert "kk8yresult" not in read_journal(registry)

    @pytest.mark.parametrize("api_format", FORMAT_NAMES)
    def test_resume_without_their_prompt(self, api_format: str, registry: ToolRegistry) -> None:
        """Where nothing in it is secret; markers in recorded replies and results are none."""

        @registry.tool("pay", shared=True)
        def pay(card: Annotated[str, Secret], phrase: Annotated[str, Secret] = "by-default") -> Receipt:
            """Pay."""
            return Receipt("kk8yresult")

        earlier = ToolLoop(
            registry.agent("ann"), fake_model(("mail", {"to": "bob"}), "Sent.", api_format=api_format)
        ).run("Go.", "first")
        with pytest.raises(KeyboardInterrupt):
            model = fake_model(("pay", {"card": "zq7xargument"}), KeyboardInterrupt(), api_format=api_format)
            ToolLoop(registry.agent("ann"), model).run("Pay.", "second", history=earlier)
        quote = next(part for part in read_journal(registry, "second").split("'") if part.startswith("[secret "))
        quoting = fake_model(f"It was {quote}, and by-default.", api_format=api_format)
        ToolLoop(registry.agent("ann"), quoting).resume("second")
        *_, replied = registry.journal.events(type="model_replied")

        assert replied.reply["text"].startswith(f"It was {quote}, and [secret ")

    def test_a_format_that_reads_whole_replies_alone(self, registry: ToolRegistry) -> None:
        """One of a plugin may raise for anything else."""

        def read_calls(reply: Any) -> list[ToolCall]:
            return [ToolCall(**call) for call in reply["calls"]]

        form = Format(
            name="own", export=lambda offer: {"name": offer.name}, calls=read_calls, result=FORMATS["gemini"].result,
            assistant=FORMATS["gemini"].assistant, prepare=FORMATS["gemini"].prepare,
        )  # fmt: skip
        model = fake_model(("mail", {"to": "bob"}), "Done.", api_format=form)

        model.format = form
        assert ToolLoop(registry.agent("ann"), model).run("Go.", "r").answered


class TestPastMessages:
    @pytest.mark.parametrize("api_format", FORMAT_NAMES)
    def test_are_read_in_every_format(self, api_format: str) -> None:
        """Each call and each result is found in what the formats write."""
        form = FORMATS[api_format]
        call = ToolCall("c1", "mail", {"to": "bob", "toolcall_reason": "Why not?"})
        result = ToolResult("c1", "mail", "ann", Outcome.OK, {"a": [1]})
        spoken = [form.user("Go."), *form.assistant([], "Hm.")]
        read = [one for message in form.assistant([call], "") for one in read_past_calls(form, message, lambda _: None)]
        results = [one for message in result_messages(form, [result]) for one in read_past_results(message)]

        assert [("c1", "mail", {"to": "bob"})] == [(one.tool_call_id, one.name, one.arguments) for one in read]
        assert [("c1", True)] == [(call_id, value in ({"a": [1]}, '{"a":[1]}')) for call_id, _, value in results]
        assert [] == [one for message in spoken for one in read_past_calls(form, message, lambda _: None)]
        assert [] == [one for message in spoken for one in read_past_results(message)]

    def test_a_result_in_blocks(self) -> None:
        """Each text is one of its own."""
        block = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a"}, {"text": "b"}]}

        assert [("c1", "", "a"), ("c1", "", "b")] == list(read_past_results({"role": "user", "content": [block]}))

    def test_a_result_with_the_role_of_a_function(self) -> None:
        """Chat messages had it before they had ids."""
        assert [("", "mail", "sent")] == list(
            read_past_results({"role": "function", "name": "mail", "content": "sent"})
        )

    @pytest.mark.parametrize("api_format", FORMAT_NAMES)
    @pytest.mark.parametrize(
        "part", ["text", None, 5, [["x"]], {"content": 3, "parts": 3, "output": 3}, {"call_id": 5}]
    )
    def test_what_is_no_message(self, part: Any, api_format: str) -> None:
        """It holds nothing."""
        for message in (part, {"role": "user", "content": [part], "parts": [part], "tool_calls": part}):
            assert [] == read_past_calls(FORMATS[api_format], message, lambda _: None)
            assert [] == list(read_past_results(message))


class Login(BaseModel):
    """Has a secret that nobody gives."""

    user: str
    password: SecretStr = SecretStr("open-sesame")


LOWER_ID = "abcdefab-cdef-4bcd-abcd-abcdefabcdef"
RECEIVED: dict[str, tuple[Any, Any, str, Callable[[Any], str]]] = {
    "type": (Annotated[UUID, Secret], LOWER_ID.upper(), LOWER_ID, str),
    "default of a class": (Login, {"user": "ann"}, "open-sesame", lambda value: value.password.get_secret_value()),
}


class TestSecretsAsToolsGetThem:
    def declare(self, registry: ToolRegistry, kind: str, *, fails: bool = False) -> None:
        """Declare a tool that quotes what it gets."""
        hint, _, _, read = RECEIVED[kind]

        def look(value: Any) -> str:
            """Look."""
            if fails:
                raise ValueError(f"no account {read(value)}")
            return f"account {read(value)} has 5"

        look.__annotations__ |= {"value": hint}
        registry.tool("look", shared=True)(look)

    @pytest.mark.parametrize("kind", RECEIVED)
    @pytest.mark.parametrize("fails", [False, True], ids=["result", "error"])
    def test_are_hidden_in_later_replies(self, kind: str, *, fails: bool, registry: ToolRegistry) -> None:
        """Broken promise: a model quoted a marked UUID as it was shown it, in other letters than it had given it."""
        self.declare(registry, kind, fails=fails)
        _, given, spelling, _ = RECEIVED[kind]
        model = fake_model(("look", {"value": given}), lambda request: str(request.messages[-1]["content"]))
        result = ToolLoop(registry.agent("ann"), model).run("Go.", "r")

        assert spelling in result.text
        assert spelling not in "".join(map(str, registry.journal.events()))

    def test_are_hidden_in_earlier_conversations(self, registry: ToolRegistry) -> None:
        """And in the reply that has the call: what the types of Python make of its arguments."""
        self.declare(registry, "type")
        reply = ModelReply(text=f"For {LOWER_ID}:", calls=(ToolCall("c", "look", {"value": LOWER_ID.upper()}),))
        loop = ToolLoop(registry.agent("ann"), fake_model(reply, "Done."))
        earlier = loop.run("Go.", "first")
        ToolLoop(registry.agent("ann"), fake_model(f"It was {LOWER_ID}.")).run("Which?", "second", history=earlier)

        assert LOWER_ID in str(earlier.messages)
        assert LOWER_ID not in read_journal(registry)


class TestMarkedResults:
    @pytest.mark.parametrize("shape", ["plain", "list", "field", "unannotated"])
    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z"),
            (time(3, 4, 5, tzinfo=UTC), "03:04:05Z"),
            (timedelta(days=1, hours=2), "P1DT2H"),
            (b"\xff\xfe\x00zq7xsec", "//4AenE3eHNlYw=="),
        ],
        ids=["datetime", "time", "timedelta", "bytes"],
    )
    def test_are_hidden_as_the_model_reads_them(
        self, value: Any, shown: str, shape: str, registry: ToolRegistry
    ) -> None:
        """Broken promise: they were searched for in Python's spelling, which no model is shown."""

        Holder = make_dataclass("Holder", [("member", Annotated[type(value), Secret])])

        def find() -> Any:
            """Return it."""
            return {"plain": value, "list": [value]}.get(shape, Holder(value))

        marked = Annotated[type(value), Secret]
        find.__annotations__["return"] = {"plain": marked, "list": list[marked], "field": Holder}.get(shape, Any)
        registry.tool("find", shared=True)(find)
        model = fake_model(("find", {}), lambda request: f"It was {shown}: {request.messages[-1]['content']}")
        result = ToolLoop(registry.agent("ann"), model).run("Go.", "r")

        assert 2 == result.text.count(shown)
        assert shown not in read_journal(registry)

    def test_are_hidden_as_they_are_cut(self, registry: ToolRegistry) -> None:
        """The model quotes what it is shown of a long one."""

        @registry.tool("find", shared=True, max_result_size=60)
        def find() -> list[Annotated[str, Secret]]:
            """Return it."""
            return ["zq7x" + 50 * "-long" + "-kk8y"]

        model = fake_model(("find", {}), lambda request: f"It was {request.messages[-1]['content'][2:-2]}.")
        result = ToolLoop(registry.agent("ann"), model).run("Go.", "r")

        assert "zq7x-long" in result.text
        assert "zq7x" not in read_journal(registry)


class TestSecretsByName:
    @pytest.mark.parametrize("text", ["the login has password=zq7xsecret9", '{"detail": "no", "token": "zq7xsecret9"}'])
    @pytest.mark.parametrize("way", ["result", "error", "denial"])
    def test_are_hidden_where_a_model_repeats_them(self, way: str, text: str, registry: ToolRegistry) -> None:
        """Broken promise: those of errors and denials were hidden there alone, and not in later replies and reasons."""

        @registry.tool("look", shared=True, requires_approval=way == "denial")
        def look(note: str = "") -> str:
            """Look."""
            if way == "error":
                raise ValueError(text)
            return text

        registry.set_approval_handler(lambda _: Deny(text))
        again = ToolCall("c", "look", {"note": "it is zq7xsecret9"}, reason="zq7xsecret9 says so")
        model = fake_model(("look", {}), [again], lambda request: f"It is zq7xsecret9: {request.messages}")
        result = ToolLoop(registry.agent("ann"), model).run("Go.", "r")

        assert "zq7xsecret9" in result.text.split(":", 1)[1]
        assert "zq7xsecret9" not in read_journal(registry)
