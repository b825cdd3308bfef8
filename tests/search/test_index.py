"""The index in SQLite's FTS5: what is found, in which order, and what is not."""

from __future__ import annotations

import sqlite3
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from praval_tools import Tool, ToolUsageError
from praval_tools.search.index import ToolIndex, make_tool_text


def do(**arguments: object) -> None:
    """Do it."""


def made(name: str, description: str = "", properties: dict[str, str] | None = None, **more: Any) -> Any:
    """Return a tool with a schema."""
    described = {key: {"type": "string", "description": text} for key, text in (properties or {}).items()}
    return Tool(name, description, {"type": "object", "properties": described}, do, **more)


def found(question: str, *tools: Any, limit: int = 10) -> list[str]:
    """Return the names of the tools that an index of all of them finds."""
    index = ToolIndex()
    index.change({}, {number: make_tool_text(tool) for number, tool in enumerate(tools)})
    return [tools[number].name for number in islice(index.find(question), limit)]


class TestFinding:
    @pytest.mark.parametrize("question", [
        "convert_currency", "convertCurrency", "CONVERTING currencies", "exchange rates", "iso code", "forex", "money",
        "Währung", "WAHRUNG", "geldwechsel",
    ])  # fmt: skip
    def test_by_each_part(self, question: str) -> None:
        """Name, description, parameters and what is said of them, tags, category and title find a tool."""
        tool = made("convertCurrency", "Exchange rate of one Währung in another.", {"toCurrency": "An ISO code."},
                    tags=["forex"], category="money", title="Geldwechsel")  # fmt: skip
        assert ["convertCurrency"] == found(question, made("other", "Something else."), tool)

    def test_parameters_of_a_function(self) -> None:
        """Names come from the signature, explanations from the docstring."""

        def look(place: str, days: int = 1) -> str:
            """
            Look ahead.

            Args:
                place: A town.
                days: How far into the future.
            """
            return place

        tool = Tool.from_function(look)
        for question in ("place", "towns", "days", "future"):
            assert ["look"] == found(question, tool)

    def test_the_name_counts_more(self) -> None:
        """A word in the name beats the same word in the description, that beats one in an explanation."""
        tools = [
            made("aa", "Send things.", {"invoice": "Number."}),
            made("bb", "Send the invoice.", {"number": "Which."}),
            made("invoice", "Send the thing.", {"number": "Which."}),
            made("cc", "Send the thing.", {"number": "The invoice."}),
        ]
        assert "invoice" == found("invoice", *tools)[0]
        assert "cc" == found("invoice", *tools)[-1]

    def test_equal_ones_come_in_order(self) -> None:
        """Tools that fit equally well keep their order, and the limit cuts the end."""
        tools = [made(f"t{number}", "Send a letter.") for number in range(9)]
        assert ["t0", "t1", "t2"] == found("letter", *tools, limit=3)

    @pytest.mark.parametrize(("question", "name"), [
        ("東京の天気", "weather"), ("天気", "weather"), ("雨", "weather"), ("メール", "mail"), ("发送邮件", "mail_zh"),
        ("날씨 예보", "weather_ko"), ("พยากรณ์อากาศ", "weather_th"), ("मौसम", "weather_hi"),
    ])  # fmt: skip
    def test_scripts_without_spaces(self, question: str, name: str) -> None:
        """Japanese, Chinese, Korean and Thai are found by parts of what they say, also by two characters or one."""
        tools = [
            made("weather", "明日の天気予報と雨の確率を返します。"), made("mail", "メールを送信します。"),
            made("mail_zh", "给联系人发送邮件。"), made("weather_ko", "내일의 날씨예보를 알려줍니다."),
            made("weather_th", "บอกพยากรณ์อากาศของวันพรุ่งนี้"), made("weather_hi", "कल का मौसम बताता है।"),
        ]  # fmt: skip
        assert name == found(question, *tools)[0]

    @pytest.mark.parametrize("question", [
        "", " ", "\x00", "\ud800", '"', "'", "*", "(", "NEAR(", "OR", "AND NOT", "name:", "-", "^", "MATCH", "--;",
        '" OR "', "a" * 1_000_000, "日" * 500_000, "weather " * 125_000, "\u0301" * 1_000, "😀", "\U0001e900",
    ])  # fmt: skip
    def test_hostile_questions(self, question: str) -> None:
        """No question is an error of SQLite."""
        assert found(question, made("weather", "The weather.")) in ([], ["weather"])

    @given(st.text())
    def test_any_question(self, question: str) -> None:
        """Whatever a tool says finds it, and nothing raises."""
        tool = made("anything", f"Say: {question}")
        hits = found(question, tool)
        assert ["anything"] == hits or not any(letter.isalnum() and letter.isascii() for letter in question)

    def test_common_words_give_way(self) -> None:
        """Where the words of a question are in very many tools, the rarest decide; one alone is always looked for."""
        index = ToolIndex()
        common = {number: make_tool_text(made(f"t{number}", "alpha beta gamma")) for number in range(4_000)}
        index.change({}, {**common, 4_000: make_tool_text(made("rare", "delta alpha beta gamma"))})
        assert 4_000 == next(index.find("alpha beta gamma delta"))
        assert 4_001 == len(list(index.find("gamma")))


class TestChanging:
    def test_what_is_taken_out_is_not_found(self) -> None:
        """Taking a tool out leaves the ranks of the others as if it had never been there."""
        tools = [made("one", "Send letters and letters."), made("two", "Write letters."), made("three", "Letters.")]
        texts = {number: make_tool_text(tool) for number, tool in enumerate(tools)}
        more = {number: make_tool_text(made(f"x{number}", "Write words and letters.")) for number in range(10, 40)}
        changed, fresh = ToolIndex(), ToolIndex()
        changed.change({}, {**more, **texts})
        changed.change(more, {})
        fresh.change({}, texts)
        for question in ("letters", "write letters", "words"):
            assert list(fresh.find(question)) == list(changed.find(question))

    def test_without_fts5(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where SQLite is built without FTS5, the error says so, and what works without."""

        class Bare(sqlite3.Connection):
            def execute(self, sql: str, *more: Any) -> Any:
                return super().execute(sql.replace("fts5", "fts_missing"), *more)

        connect = sqlite3.connect
        monkeypatch.setattr(sqlite3, "connect", lambda path, **more: connect(path, factory=Bare, **more))
        with pytest.raises(ToolUsageError, match=r"needs SQLite with FTS5.*search_tools\(name_pattern=…\)") as raised:
            ToolIndex()
        assert "no-full-text-search" == raised.value.code
