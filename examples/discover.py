"""
Bring in tools that others wrote: discover a package's tools, and give them to an agent by their category.

Prints:
    found: count_letters, count_words
    editor: count_letters, count_words
    words: 9
    vowels: {'a': 2, 'e': 3}
"""

import sys
from pathlib import Path

from praval_tools import Agent, ToolRegistry, discover_tools

sys.path.insert(0, str(Path(__file__).parent))

TEXT = "The quick brown fox jumps over the lazy cat"


if __name__ == "__main__":
    registry = ToolRegistry(name="newsroom")
    editor = Agent("editor", tool_categories=["text"], registry=registry)

    found = discover_tools("text_tools", registry=registry)

    print("found:", ", ".join(sorted(tool.name for tool in found)))
    print("editor:", ", ".join(sorted(editor.list_tools())))
    print("words:", editor.call("count_words", text=TEXT))
    print("vowels:", editor.call("count_letters", text=TEXT, letters="ae"))
