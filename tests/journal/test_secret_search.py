"""Known secrets are found in texts in one pass, however many they are."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from praval_tools import Outcome, ToolCall, ToolRegistry, ToolResult
from praval_tools.journal.events import CallRefused
from praval_tools.journal.redaction.redactor import MARKER_PATTERN, Redactor
from praval_tools.journal.redaction.secret_search import MarkedSpan, SecretMarkers, build_written_forms, replace_spans

REDACTOR = Redactor(key=bytes(range(32)))


def _find_each_alone(text: str, markers: dict[str, str]) -> set[int]:
    """Return the positions in *text* that any written form of a secret covers, found the plain way."""
    covered: set[int] = set()
    for form in {form for secret in markers for form in build_written_forms(secret)}:
        start = text.find(form)
        while start >= 0:
            covered |= set(range(start, start + len(form)))
            start = text.find(form, start + 1)
    return covered


def _list_covered(spans: list[MarkedSpan]) -> set[int]:
    return {position for start, end, _ in spans for position in range(start, end)}


class TestOnePass:
    """
    Broken promise: redaction costs time in proportion to what is redacted.

    Each secret was searched for alone: 4,000 words of a parameter named `tokens` took half a minute.
    """

    @given(st.lists(st.text("ab-é", min_size=4, max_size=9), min_size=1, max_size=8), st.data())
    def test_finds_what_a_search_for_each_finds(self, secrets: list[str], data: st.DataObject) -> None:
        """Overlapping, nested and adjoining secrets: the same characters are hidden as by a search for each."""
        markers = {secret: f"<{number}>" for number, secret in enumerate(secrets)}
        parts = data.draw(st.lists(st.sampled_from(secrets) | st.text("ab-é", max_size=5), max_size=6))
        text = "".join(parts)

        assert _find_each_alone(text, markers) == _list_covered(list(SecretMarkers(markers).find_spans(text)))

    @given(st.integers(2_000, 9_000), st.integers(0, 50))
    def test_a_long_secret_is_one_marker(self, length: int, before: int) -> None:
        """A secret of any length is found as a whole, and replaced by one marker."""
        secret = "".join(chr(0x4E00 + number % 5_000) for number in range(length))
        markers = SecretMarkers({secret: "<marker>"})
        text = f"{'x' * before}{secret}y"

        assert f"{'x' * before}<marker>y" == replace_spans(text, markers.find_spans(text))

    def test_many_secrets_in_a_long_text(self) -> None:
        """Sixteen thousand words of a parameter named `tokens` are hidden in a result that repeats them all."""
        words = [f"word{number}x" for number in range(16_000)]
        plan = REDACTOR.build_plan()
        _, secrets = plan.redact_arguments({"tokens": words})

        clean = MARKER_PATTERN.sub("", str(plan.redact_result(" ".join(words), secrets)))
        assert "" == clean.strip()

    def test_repeated_schemes(self) -> None:
        """A secret made of nothing but names of schemes is not taken apart name by name."""
        _, secrets = REDACTOR.build_plan().redact_arguments({"authorization": "Bearer token " * 5_000 + "abcd1234"})

        assert "<2 secrets>" == repr(secrets)
        assert "abcd1234" not in str(REDACTOR.redact_text("got abcd1234", secrets))


class TestRefusedCalls:
    """What a caller who may not call can cost is bounded: very many secrets of a refused call are one marker."""

    def test_are_one_marker(self) -> None:
        """
        Broken promise: what a refused caller can cost is bounded.

        An agent without a grant made the journal take its arguments apart: 0.8 s for 88 KB.
        """
        words = [f"word{number}x" for number in range(4_000)]
        result, event = _refuse({"tokens": words, "note": "hello"})

        assert Outcome.FORBIDDEN is result.outcome is event.outcome
        assert MARKER_PATTERN.fullmatch(event.arguments)
        assert event.error is not None and MARKER_PATTERN.fullmatch(event.error)

    def test_without_secrets_are_written_as_they_are(self) -> None:
        """Long arguments without secrets stay readable in the audit trail, and so does the reason."""
        arguments = {"note": "hello " * 10_000}
        result, event = _refuse(arguments)

        assert (arguments, result.error) == (event.arguments, event.error)


def _refuse(arguments: dict[str, Any]) -> tuple[ToolResult, CallRefused]:
    """Return what comes of a call of an agent without a grant, and the event that is written of it."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("count", owned_by="boss")
    def count(tokens: list[str], note: str = "") -> int:
        """Count."""
        return len(tokens)

    result = registry.execute(ToolCall(None, "count", arguments, "nobody"))
    assert registry.journal is not None
    (event,) = [event for event in registry.journal.events() if isinstance(event, CallRefused)]
    return result, event
