"""The tools of an agent of a registry for the command line tool `llm`; `plugin` is what `llm` loads."""
