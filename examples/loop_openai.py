"""
The loop with the client of the openai SDK, sync and streaming; any server that speaks Chat Completions will do.

Without a server it says what it needs: set OPENAI_BASE_URL and OPENAI_API_KEY.

Prints:
    Set OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL, and ask again.
"""

import os

from praval_tools import Agent, tool
from praval_tools.loop import OpenAIChat, TextPiece, ToolLoop


@tool("count_words", shared=True)
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


def main(base_url: str, key: str, name: str) -> None:
    """Ask one question, and print the answer as it comes."""
    from openai import OpenAI

    with OpenAI(base_url=base_url, api_key=key) as client:
        loop = ToolLoop(Agent("clerk"), OpenAIChat(client, name))
        for event in loop.stream("How many words has 'to be or not to be'?"):
            if isinstance(event, TextPiece):
                print(event.text, end="", flush=True)
    print()


if __name__ == "__main__":
    url, key, name = (os.environ.get(one, "") for one in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"))
    if url and key and name:
        main(url, key, name)
    else:
        print("Set OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL, and ask again.")
