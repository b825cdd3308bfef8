"""Two tools that count."""

from praval_tools import tool


@tool("count_words", category="text", read_only=True)
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


@tool("count_letters", category="text", read_only=True)
def count_letters(text: str, letters: str = "aeiou") -> dict[str, int]:
    """
    Count how often letters stand in a text.

    Args:
        text: The text.
        letters: The letters to count.
    """
    return {letter: text.lower().count(letter) for letter in letters}
