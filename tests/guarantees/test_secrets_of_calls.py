"""Secrets in calls: no byte of them is in the store, logs, warnings or stored errors, and replay still works."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
import threading
import warnings
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import attrs
import pytest
from survivors import run

from praval_tools import (
    Allow,
    ApprovalRequest,
    Deny,
    Outcome,
    Secret,
    ToolCall,
    ToolRegistry,
    ToolResult,
)
from praval_tools.errors import RedactionKeyError, ReplayMismatchError
from praval_tools.journal.redaction.redactor import MARKER_PATTERN

pytestmark = pytest.mark.usefixtures("recording_path")

SECRET = "kT7#vQ2/xW9+zR"
OTHER = "nB4$mZ8?pL1,yH"
WINDOW = 4


def _forms(secret: str) -> set[str]:
    data = secret.encode()
    return {secret, b64encode(data).decode().rstrip("=")}


def shown(data: bytes, secret: str = SECRET) -> set[str]:
    """Return what *data* shows of *secret*: four characters in a row, as they are or in base64."""
    pieces = {form[at : at + WINDOW] for form in _forms(secret) for at in range(len(form) - WINDOW + 1)}
    return {one for one in pieces if one.encode() in data}


@attrs.frozen
class Login:
    """Who logs in."""

    user: str
    pin: Annotated[str, Secret]


class SecretTools:
    """A registry with a journal in a folder, and tools that do all that tools do with secrets."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder, self.got = folder, list[Any]()
        self.registry = ToolRegistry(journal=folder / "runs.db", timeout=5, **options)
        self.gate = threading.Event()
        self._declare(self.registry)

    def _declare(self, registry: ToolRegistry) -> None:
        got, gate = self.got, self.gate

        @registry.tool("login", owned_by="ann")
        def login(user: str, pin: Annotated[str, Secret]) -> str:
            """Log in."""
            got.append((user, pin))
            return f"{user} came with {pin}"

        @registry.tool("alogin", owned_by="ann")
        async def alogin(user: str, pin: Annotated[str, Secret]) -> str:
            """Log in."""
            got.append((user, pin))
            return f"{user} came with {pin}"

        @registry.tool("deep", owned_by="ann")
        def deep(logins: list[Login], more: dict[str, Any]) -> dict[str, Any]:
            """Log many in."""
            got.append(logins)
            return {"more": more, "password": logins[0].pin, "text": json.dumps({"x": logins[0].pin})}

        @registry.tool("fails", owned_by="ann")
        def fails(pin: Annotated[str, Secret], how: str = "text") -> str:
            """Fail."""
            if how == "cut":
                raise ValueError(f"no luck with {pin[:7]}…")
            if how == "repr":
                raise KeyError({"pin": pin})
            try:
                raise LookupError(pin)
            except LookupError as error:
                raise RuntimeError(f"cannot use {pin!r}") from error

        @registry.tool("slow", owned_by="ann", timeout=0.05)
        def slow(pin: Annotated[str, Secret]) -> str:
            """Come late."""
            gate.wait(30)
            return f"late: {pin}"

        @registry.tool("careful", owned_by="ann", requires_approval=True)
        def careful(pin: Annotated[str, Secret], note: str = "") -> str:
            """Wait for a person."""
            got.append(pin)
            return pin

        @registry.tool("bare", owned_by="ann")
        def bare(pin: Annotated[str, Secret]) -> int:
            """Take one."""
            return len(pin)

    def call(self, tool: str, arguments: Any, agent: str = "ann", name: str | None = None) -> ToolResult:
        """Return what comes of a call."""
        return self.registry.execute(ToolCall(name, tool, arguments, agent))

    def stored(self) -> bytes:
        """Return every byte beside which the journal lies: database, log, index, locks, not the key."""
        files = [one for one in self.folder.rglob("*") if one.is_file() and one.suffix != ".key"]
        assert any(one.name == "runs.db-wal" for one in files)
        return b"\0".join(one.read_bytes() + str(one).encode() for one in files)

    def events(self) -> list[Any]:
        """Return what was written down."""
        assert self.registry.journal is not None
        return list(self.registry.journal.events())


@pytest.fixture
def secret_tools(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[SecretTools]:
    """Tools that show nothing at the end: neither files, nor log, nor warnings show a secret."""
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        made = SecretTools(tmp_path)
        yield made
        made.gate.set()
        assert set() == shown(made.stored())
        made.registry.close()
        for one in tmp_path.rglob("runs.db*"):
            assert not one.is_file() or set() == shown(one.read_bytes())
    assert set() == shown(caplog.text.encode())
    assert set() == shown("".join(str(one.message) for one in heard).encode())


class TestNothingIsShown:
    """The end of the fixture looks at all files, the log and the warnings."""

    @pytest.mark.parametrize("tool", ["login", "alogin"])
    def test_a_secret_parameter(self, secret_tools: SecretTools, tool: str) -> None:
        """The tool gets it and its caller the result; the journal has a marker in both."""
        result = secret_tools.call(tool, {"user": "bob", "pin": SECRET})

        assert f"bob came with {SECRET}" == result.result
        assert [("bob", SECRET)] == secret_tools.got
        begun, ended = secret_tools.events()
        assert MARKER_PATTERN.fullmatch(begun.arguments["pin"]) and "bob" == begun.arguments["user"]
        assert begun.arguments["pin"] in ended.result

    def test_from_async_code(self, secret_tools: SecretTools) -> None:
        """The same with `aexecute`, and in a batch."""
        calls = [ToolCall(None, "alogin", {"user": "bob", "pin": SECRET}, "ann") for _ in range(3)]

        found = asyncio.run(secret_tools.registry.aexecute_batch(calls))

        assert [Outcome.OK] * 3 == [one.outcome for one in found]

    def test_at_any_depth(self, secret_tools: SecretTools) -> None:
        """In classes in lists, under secret-looking keys, in JSON text in texts, and in what comes back."""
        inner = json.dumps({"a": [json.dumps({"api_key": SECRET})]})
        more = {
            "headers": [{"name": "Authorization", "value": f"Bearer {SECRET}"}],
            "body": inner,
            "deep": {"x": [{"userPassword": {"now": SECRET}}]},
        }

        result = secret_tools.call("deep", {"logins": [{"user": "bob", "pin": SECRET}], "more": more})

        assert Outcome.OK is result.outcome and SECRET == secret_tools.got[0][0].pin

    def test_numbers_that_python_does_not_spell(self, secret_tools: SecretTools) -> None:
        """A secret number of more than 4300 digits is hidden like any other, and the refusal of it is written down."""
        many = 10**5_000 + 7

        @secret_tools.registry.tool("count", owned_by="ann")
        def count(pin: Annotated[Any, Secret]) -> None:
            """Count."""
            secret_tools.got.append(pin)

        for pin in (many, {"inner": [many]}):
            assert Outcome.INVALID_ARGUMENTS is secret_tools.call("count", {"pin": pin}).outcome
        assert 2 == len(secret_tools.events()) and not secret_tools.got
        assert hex(many) not in repr(secret_tools.events())

    def test_arguments_as_text(self, secret_tools: SecretTools) -> None:
        """Arguments may come as JSON text or bytes, as models send them."""
        given = {"user": "bob", "pin": SECRET}
        for form in (json.dumps(given), json.dumps(given).encode(), json.dumps(json.dumps(given))):
            secret_tools.call("login", form)

    @pytest.mark.parametrize("how", ["text", "cut", "repr"])
    def test_errors(self, secret_tools: SecretTools, how: str) -> None:
        """What a tool raises may quote it, in parts, in a repr, in a cause."""
        result = secret_tools.call("fails", {"pin": SECRET, "how": how})

        assert Outcome.TOOL_ERROR is result.outcome

    def test_masked_errors(self, tmp_path: Path) -> None:
        """Nor is it in the detail that the journal keeps for the operator."""
        secret_tools = SecretTools(tmp_path, errors="masked")
        result = secret_tools.call("fails", {"pin": SECRET})

        assert set() == shown(str(result.error).encode())
        assert secret_tools.events()[-1].detail
        assert set() == shown(secret_tools.stored())
        secret_tools.registry.close()

    @pytest.mark.parametrize(
        "arguments",
        [
            {"user": 1, "pin": SECRET},
            {"pin": SECRET},
            {"user": "x", "pin": [SECRET]},
            {"user": "x", "pin": {"a": SECRET}},
            {"user": "x", "pin": "y", "password": SECRET},
            {"user": "x", "PIN": SECRET},
            {"user": "x", "Pin": SECRET},
            {"user": "x", "kwargs": {"pin": SECRET}},
            json.dumps({"pin": SECRET}),
            json.dumps([{"pin": SECRET}]),
            f'{{"user": "x", "pin": "{SECRET[:6]}',
            b'{"pin": "' + SECRET.encode(),
            json.dumps(SECRET),
            f"pin={SECRET}",
        ],
        ids=range(14),
    )
    def test_arguments_that_do_not_fit(self, secret_tools: SecretTools, arguments: Any) -> None:
        """Wrong types, missing and unknown parameters, broken JSON: the refusal tells nothing."""
        result = secret_tools.call("login", arguments)

        assert result.outcome in (Outcome.INVALID_ARGUMENTS, Outcome.OK)

    @pytest.mark.parametrize("arguments", [SECRET, [SECRET], {"0": SECRET}], ids=["text", "list", "number"])
    def test_a_bare_value_of_the_only_parameter(self, secret_tools: SecretTools, arguments: Any) -> None:
        """A model that sends the value alone: where every parameter is secret, so is whatever stands in its place."""
        secret_tools.call("bare", arguments)

    @pytest.mark.parametrize("agent", ["stranger", None, 7])
    def test_refusals(self, secret_tools: SecretTools, agent: Any) -> None:
        """Calls that are forbidden are written down without it."""
        result = secret_tools.call("login", {"user": "bob", "pin": SECRET}, agent)

        assert Outcome.FORBIDDEN is result.outcome

    def test_unknown_tools(self, secret_tools: SecretTools) -> None:
        """Of a tool that does not exist the names of keys tell what is secret."""
        for arguments in ({"a": {"token": SECRET}}, json.dumps({"x": json.dumps({"password": SECRET})})):
            assert Outcome.UNKNOWN_TOOL is secret_tools.call("nope", arguments).outcome

    def test_bounds_that_quote_it(self, secret_tools: SecretTools) -> None:
        """A grant bound to one secret refuses another without telling it."""
        secret_tools.registry.assign_tool_to_agent("login", "bob", where={"user": {"const": "bob"}})
        result = secret_tools.call("login", {"user": SECRET, "pin": SECRET}, "bob")

        assert Outcome.FORBIDDEN is result.outcome

    def test_a_policy_that_quotes_it(self, secret_tools: SecretTools) -> None:
        """A refusal of a policy may repeat the arguments."""
        secret_tools.registry.add_policy(lambda agent, tool, arguments: f"not with {arguments}")

        assert Outcome.FORBIDDEN is secret_tools.call("login", {"user": "bob", "pin": SECRET}).outcome

    def test_late_results(self, secret_tools: SecretTools) -> None:
        """What a function gives after its time is written down without it."""
        assert Outcome.TIMEOUT is secret_tools.call("slow", {"pin": SECRET}).outcome
        secret_tools.gate.set()
        secret_tools.registry.drain()
        secret_tools.registry.close()
        again = ToolRegistry(journal=secret_tools.folder / "runs.db")
        assert again.journal is not None
        late = list(again.journal.events(type="late_result"))
        assert 1 == len(late) and MARKER_PATTERN.search(late[0].result)
        again.close()
        secret_tools.registry = SecretTools(secret_tools.folder).registry
        secret_tools.call("bare", {"pin": "long enough"})


class TestApprovals:
    @pytest.mark.parametrize(
        "answer",
        [
            Allow({"pin": SECRET}, "boss"),
            Allow({"pin": "new pin", "note": json.dumps({"token": SECRET})}, "boss"),
            Deny(f"{SECRET} is too weak", "boss"),
            Allow(None, "boss", f"{SECRET} is good"),
            Allow({"pin": [SECRET]}, "boss"),
            Allow({"pin": "other", "extra": SECRET}, "boss", "password: " + SECRET),
        ],
        ids=range(6),
    )
    @pytest.mark.parametrize("later", [False, True], ids=["handler", "later"])
    def test_answers(self, secret_tools: SecretTools, answer: Allow | Deny, later: bool) -> None:
        """Edited arguments and reasons of the answers of handlers and persons tell nothing."""
        arguments = {"pin": SECRET}
        if later:
            assert Outcome.APPROVAL_REQUIRED is secret_tools.call("careful", arguments, name="c1").outcome
            secret_tools.registry.approvals.answer("c1", answer)
        else:
            secret_tools.registry.set_approval_handler(lambda request: answer)
        secret_tools.call("careful", arguments, name="c1")

    def test_a_handler_that_raises(self, secret_tools: SecretTools) -> None:
        """An error that quotes what it was shown is a no, and tells nothing."""

        def handler(request: ApprovalRequest) -> Any:
            raise RuntimeError(f"cannot judge {request.arguments}")

        secret_tools.registry.set_approval_handler(handler)

        assert Outcome.APPROVAL_DENIED is secret_tools.call("careful", {"pin": SECRET}).outcome

    def test_an_answer_of_another_kind(self, secret_tools: SecretTools) -> None:
        """Nor does what is not an answer at all."""
        secret_tools.registry.set_approval_handler(lambda request: request.arguments["pin"])

        assert Outcome.APPROVAL_DENIED is secret_tools.call("careful", {"pin": SECRET}).outcome


class TestReplay:
    def test_the_same_secret_matches(self, secret_tools: SecretTools) -> None:
        """A call with the same secret gets the recorded result without running; with another one it is a new call."""
        calls = [{"user": "bob", "pin": SECRET}, {"user": "bob", "pin": OTHER}]
        with secret_tools.registry.run("r"):
            secret_tools.call("login", calls[0])
        with secret_tools.registry.run("r") as run:
            results = [secret_tools.call("login", one) for one in calls]
            assert [] == run.unused

        assert [True, False] == [one.replayed for one in results]
        assert 2 == len(secret_tools.got)
        assert set() == shown(secret_tools.stored(), OTHER)

    def test_another_secret_under_the_same_id(self, secret_tools: SecretTools) -> None:
        """The mismatch is found, and the error tells neither."""
        with secret_tools.registry.run("r", match="id"):
            secret_tools.call("login", {"user": "bob", "pin": SECRET}, name="c1")
        with secret_tools.registry.run("r", match="id"), pytest.raises(ReplayMismatchError) as caught:
            secret_tools.call("login", {"user": "bob", "pin": OTHER}, name="c1")

        assert set() == shown(str(caught.value).encode()) | shown(str(caught.value).encode(), OTHER)

    def test_errors_and_refusals_replay(self, secret_tools: SecretTools) -> None:
        """A recorded error, and a refusal of bad arguments, with secrets inside come back without running."""
        made: list[list[ToolResult]] = []
        for _ in range(2):
            with secret_tools.registry.run("r"):
                made.append(
                    [
                        secret_tools.call("fails", {"pin": SECRET}),
                        secret_tools.call("login", {"user": 1, "pin": SECRET}),
                        secret_tools.call("login", {"user": "x", "pin": SECRET}, "stranger"),
                    ]
                )

        assert [one.outcome for one in made[0]] == [one.outcome for one in made[1]]
        assert [True] * 3 == [one.replayed for one in made[1]]

    def test_in_another_process(self, secret_tools: SecretTools) -> None:
        """The key is in the file beside the store, for its owner alone: another process finds the call."""
        with secret_tools.registry.run("r"):
            secret_tools.call("bare", {"pin": SECRET})
        key = secret_tools.folder / "runs.db.key"
        assert 0o600 == stat.S_IMODE(key.stat().st_mode)
        secret_tools.registry.close()

        program = (
            f"import sys\nfrom pathlib import Path\nsys.path.append({str(Path(__file__).parent)!r})\n"
            "from test_secrets_of_calls import SecretTools, SECRET, OTHER\n"
            "secret_tools = SecretTools(Path(sys.argv[1]))\n"
            "with secret_tools.registry.run('r'):\n"
            "    print([secret_tools.call('bare', {'pin': one}).replayed for one in (SECRET, OTHER)])\n"
            "secret_tools.registry.close()\n"
        )
        done = run(program, secret_tools.folder)
        assert "[True, False]" == done.stdout.strip(), done.stderr
        secret_tools.registry = SecretTools(secret_tools.folder).registry
        secret_tools.call("bare", {"pin": "long enough"})

    def test_with_a_key_of_the_environment(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """`PRAVAL_TOOLS_KEY` is used, no file is made, and another key is refused: it would repeat the call."""
        found = []
        for key in ("a key of some length", "a key of some length"):
            monkeypatch.setenv("PRAVAL_TOOLS_KEY", key)
            secret_tools = SecretTools(tmp_path)
            with secret_tools.registry.run("r"):
                found.append(secret_tools.call("bare", {"pin": SECRET}).replayed)
            assert set() == shown(secret_tools.stored())
            assert key.encode() not in secret_tools.stored()
            secret_tools.registry.close()

        monkeypatch.setenv("PRAVAL_TOOLS_KEY", "another key entirely")
        with pytest.raises(RedactionKeyError, match="PRAVAL_TOOLS_KEY"):
            SecretTools(tmp_path)
        assert [False, True] == found
        assert [] == list(tmp_path.glob("*.key"))


class TestNames:
    def test_names_of_the_registry(self, tmp_path: Path) -> None:
        """`secrets=` adds names to the usual ones."""
        secret_tools = SecretTools(tmp_path, secrets=["iban", "license plate"])

        @secret_tools.registry.tool("pay", owned_by="ann")
        def pay(iban: str, note: dict[str, Any]) -> str:
            """Pay."""
            return f"paid to {iban}"

        secret_tools.call("pay", {"iban": SECRET, "note": {"licensePlate": OTHER, "password": OTHER}})
        secret_tools.call("nope", {"customer": {"IBAN": SECRET}})

        assert set() == shown(secret_tools.stored()) | shown(secret_tools.stored(), OTHER)
        secret_tools.registry.close()

    def test_statistics_tell_nothing(self, secret_tools: SecretTools, tmp_path: Path) -> None:
        """Nor does the file of the statistics."""
        secret_tools.call("fails", {"pin": SECRET})
        secret_tools.registry.stats.save_stats(tmp_path / "stats.json")

        assert set() == shown((tmp_path / "stats.json").read_bytes())
