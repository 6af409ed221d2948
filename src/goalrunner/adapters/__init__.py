"""Agents of other frameworks as conversations. An extra installs each framework.

`strands` and `openhands` are public modules, with the names of the frameworks.
`messages` is public, too: it records messages of LangChain and pydantic-ai for
conversations that programs write themselves. What they share: `framework` has the base
class of conversations, `library` runs goals over them, `turn_recorder` records a turn,
`message_formats` converts messages. The modules that begin with the name of a framework
hold its other parts: agents, records and workspaces of OpenHands; the hooks of Strands'
GoalLoop and what they check. A new framework: a module with a subclass of
`FrameworkConversation` and a `Library` over it, and an extra in `pyproject.toml`.
"""
