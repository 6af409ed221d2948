"""Agents of other frameworks as conversations. An extra installs each framework.

`strands` and `openhands` are the public modules, with the names of the frameworks. What
they share: `framework` has the base class of conversations, `library` runs goals over
them, `turn_recorder` records a turn, `message_formats` converts messages. A new
framework: a module with a subclass of `FrameworkConversation` and a `Library` over it,
and an extra in `pyproject.toml`.
"""
