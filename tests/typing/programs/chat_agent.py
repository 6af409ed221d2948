"""The built-in agent, with a model of its own and a model as judge."""

from goalrunner import LLM, ChatConversation, GoalOutcome, chat_conversation, run_goal


def agent() -> ChatConversation:
    model = LLM("openai/gpt-5-mini", params={"temperature": 0.2})
    return chat_conversation(model, workspace=".", max_steps=20)


def explain(topic: str) -> GoalOutcome:
    return run_goal(
        chat_conversation("openai/gpt-5-mini"),
        f"Explain {topic}.",
        LLM("openai/gpt-5", api_key_env="OPENAI_API_KEY"),
        max_iterations=5,
        cost_usd=0.5,
    )


def main() -> None:
    assert agent().messages == []
