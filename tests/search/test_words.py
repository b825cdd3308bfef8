"""The words of texts: identifiers in their parts, scripts without spaces, hostile texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from praval_tools.search.words import list_query_words, list_words


@pytest.mark.parametrize(("text", "words"), [
    ("getHTTPStatus", ["get", "http", "status"]),
    ("user_id", ["user", "id"]),
    ("math.vector-sum", ["math", "vector", "sum"]),
    ("S3Bucket2", ["s3", "bucket2"]),
    ("Größe ÉTÉ", ["grösse", "été"]),
    ("ﬁle ①", ["file", "1"]),
    ("天気", ["天", "気", "天気"]),
    ("天気API予報", ["天", "気", "天気", "api", "予", "報", "予報"]),
    ("고양이", ["고", "양", "이", "고양", "양이"]),
    ("मौसम की", ["मौसम", "की"]),
    ("", []),
    (" \x00\ud800 ,;\"'*()", []),
])  # fmt: skip
def test_words_of_a_text(text: str, words: list[str]) -> None:
    """Identifiers fall into parts, marks stay with their letters, runs without spaces give characters and pairs."""
    assert words == list_words(text)


@pytest.mark.parametrize(("question", "words"), [
    ("What is the weather, and the weather tomorrow?", ["weather", "tomorrow"]),
    ("what is it", ["what", "is", "it"]),
    ("天気予報", ["天", "気", "予", "報", "天気", "気予", "予報"]),
    ("雨", ["雨"]),
    ("NEAR(a b) NOT \"c\" OR d* -e ^f name:g", ["near", "b", "c", "d", "e", "f", "name", "g"]),
    (" ".join(f"w{number}" for number in range(100)), [f"w{number}" for number in range(64)]),
    ("x" * 100_000, ["x" * 64]),
])  # fmt: skip
def test_words_of_a_question(question: str, words: list[str]) -> None:
    """Each word once, no stop words unless there are only such, and not more than a search can rank in time."""
    assert words == list_query_words(question)


@given(st.text(st.characters()) | st.text('aA1_ .天気ก็한\u0301\ud800\x00"*'))
def test_any_text(text: str) -> None:
    """Words hold letters, digits and marks alone, and what is asked for can be found."""
    words, asked = list_words(text), list_query_words(text)
    assert all(word and not any(one in word for one in " \"*'()\x00\ud800") for word in words)
    assert set(asked) <= set(words)
