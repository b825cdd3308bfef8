"""How well a search finds, on tools and questions of our own, beside plain BM25 of the same texts."""

# Tests of: finder, index, words

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path

import pytest
from attrs import frozen

from praval_tools import Tool, ToolRegistry

HITS = 5
WITHOUT_COMMON_WORDS = "How many dollars do I get for 100 euros?"


@frozen
class Example:
    """A tool: its name, what it does, and its parameters."""

    name: str
    description: str
    parameters: list[str]


def read_lines() -> list[str]:
    """Return the lines of the file that say something."""
    lines = (Path(__file__).parent / "tools_and_questions.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


TOOLS = [
    Example(name.strip(), description.strip(), [one.strip() for one in parameters.split(",") if one.strip()])
    for name, description, parameters in (line.split("|") for line in read_lines() if not line.startswith("?"))
]
QUESTIONS = {
    question.strip(): set(names.split())
    for question, names in (line.removeprefix("?").split("|") for line in read_lines() if line.startswith("?"))
}


def do(**arguments: object) -> None:
    """Do nothing."""


@pytest.fixture(scope="module")
def registry() -> ToolRegistry:
    """A registry with all of the tools."""
    registry = ToolRegistry()
    for tool in TOOLS:
        schema = {"type": "object", "properties": {name: {} for name in tool.parameters}}
        registry.register_tool(Tool(tool.name, tool.description, schema, do, shared=True))
    return registry


def rank_plainly(question: str) -> list[str]:
    """Return the best tools by BM25 over lower-case words, as the libraries compute it."""
    texts = {tool.name: split(" ".join((tool.name, tool.description, *tool.parameters))) for tool in TOOLS}
    mean = sum(map(len, texts.values())) / len(texts)
    holders = Counter(word for words in texts.values() for word in set(words))

    def score(words: list[str]) -> float:
        counts, total = Counter(words), 0.0
        for word in split(question):
            idf = math.log(1 + (len(texts) - holders[word] + 0.5) / (holders[word] + 0.5))
            total += idf * counts[word] * 2.5 / (counts[word] + 1.5 * (0.25 + 0.75 * len(words) / mean))
        return total

    scores = {name: score(words) for name, words in texts.items()}
    return sorted((name for name in scores if scores[name]), key=lambda name: -scores[name])[:HITS]


def split(text: str) -> list[str]:
    """Return the words of a text, those of an identifier apart."""
    return re.findall(r"[^\W_]+", text.lower())


def test_the_set_is_large_and_whole() -> None:
    """Questions are about tools that there are, and some of them are in scripts without spaces."""
    assert len(TOOLS) >= 200
    assert len(QUESTIONS) >= 40
    assert {tool.name for tool in TOOLS} >= set().union(*QUESTIONS.values())
    assert sum(not question.isascii() for question in QUESTIONS) >= 10


def test_the_meant_tool_is_among_the_first_five(registry: ToolRegistry) -> None:
    """
    For all questions but one that shares no word with its tool, and mostly in the first place.

    Plain BM25 misses other forms of a word, joined identifiers, and scripts without spaces.
    """
    ours = {question: [tool.name for tool in registry.search(question, "ann", HITS)] for question in QUESTIONS}
    plain = {question: rank_plainly(question) for question in QUESTIONS}

    assert [WITHOUT_COMMON_WORDS] == [question for question, names in ours.items() if is_missed(question, names)]
    assert 49 == len(QUESTIONS)
    assert 47 == sum(not is_missed(question, names[:1]) for question, names in ours.items())
    assert 37 == sum(not is_missed(question, names) for question, names in plain.items())
    assert 33 == sum(not is_missed(question, names[:1]) for question, names in plain.items())


def is_missed(question: str, names: list[str]) -> bool:
    """Tell whether none of *names* is a tool that the question means."""
    return QUESTIONS[question].isdisjoint(names)
