"""The views of access: matrix, tools, agents, ownership, grants, and the forms that change who may call what."""
