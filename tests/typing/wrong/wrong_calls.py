"""Calls with mistakes that a type checker finds."""

from goalrunner import Event, LLM, RunKeywords, best_of, chat_conversation
from goalrunner import load_goal, resume, run_batch, run_goal
from goalrunner.testing import ScriptedConversation

agent = ScriptedConversation("done")


class NoApprover:
    """Has no method answer."""

    async def approve(self, request: object) -> None:
        return None


class NoMessages:
    """Is no conversation."""

    def send(self, prompt: str) -> str:
        return prompt


def no_event() -> None:
    return None


def text_of(event: Event) -> object:
    return event.text  # expect: union-attr / reportAttributeAccessIssue


run_goal("openai/gpt-5-mini", "x")  # expect: arg-type / reportArgumentType
run_goal(NoMessages(), "x")  # expect: arg-type / reportArgumentType
run_goal(agent)  # expect: call-arg / reportCallIssue
run_goal(agent, 5)  # expect: arg-type / reportArgumentType
run_goal(agent, "x", max_iteration=3)  # expect: call-arg / reportCallIssue
run_goal(agent, "x", timeout=[30])  # expect: arg-type / reportArgumentType
run_goal(agent, "x", validators=5)  # expect: arg-type / reportArgumentType
run_goal(agent, "x", judge=5)  # expect: arg-type / reportArgumentType
run_goal(agent, "x", approver=NoApprover())  # expect: arg-type / reportArgumentType
run_goal(agent, "x", on_event=no_event)  # expect: arg-type / reportArgumentType
outcome = run_goal(agent, "x")
score = outcome.verdict.score  # expect: union-attr / reportOptionalMemberAccess
resume(5, agent)  # expect: arg-type / reportArgumentType
resume("run")  # expect: call-arg / reportCallIssue
best_of("goal.toml", "3")  # expect: arg-type / reportArgumentType
run_batch(["a.toml"], agents=["claude"])  # expect: call-arg / reportCallIssue
load_goal(5)  # expect: arg-type / reportArgumentType
chat_conversation(5)  # expect: arg-type / reportArgumentType
LLM("a/b", temperature=0.2)  # expect: call-arg / reportCallIssue
RunKeywords(max_iteration=3)  # expect: typeddict-unknown-key / reportCallIssue
