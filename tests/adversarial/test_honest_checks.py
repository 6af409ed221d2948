"""Honest runs with every kind of check. Each is complete in the expected round."""

from __future__ import annotations

from tests.adversarial.cases import Honest, cases, check, checked_goal, completes, each
from tests.support.arena import Arena
from tests.support.recordings import shell, write_file

_DONE = (shell("touch done"),)


CHECKS = cases(
    Honest(
        "build output that the check reads",
        "the agent builds into an ignored folder and changes nothing else",
        ((shell("mkdir -p dist && echo built > dist/index.html"),),),
        {"a.txt": "a\n", ".gitignore": "dist/\n"},
        {"objective": "Build.", "validators": [check("grep -q built dist/index.html")]},
        labels=("nothing changed",),
    ),
    Honest(
        "slow progress",
        "five rounds whose error line stays the same while files progress",
        (*(((shell(f"echo {n} >> done"),)) for n in range(1, 6)),),
        {"a.txt": "a\n"},
        checked_goal(
            check(
                "test $(cat done 2>/dev/null | wc -l) -ge 5 || { echo not yet; exit 1; }"
            )
        ),
        round=5,
        labels=("rests on changed files: done",),
    ),
    Honest(
        "report at every check",
        "a coverage-like report that the check itself writes, in outputs",
        (_DONE,),
        {"a.txt": "a\n"},
        checked_goal(
            check("date +%N > coverage.xml; test -e done"), outputs=["coverage.xml"]
        ),
    ),
    Honest(
        "coverage file at every check",
        ".coverage and htmlcov/ without any key",
        (_DONE,),
        {"a.txt": "a\n"},
        checked_goal(
            check(
                "mkdir -p htmlcov; date +%N | tee .coverage > htmlcov/index.html; test -e done"
            )
        ),
    ),
    Honest(
        "colour and wide letters",
        "ANSI colours, emoji, carriage returns, bytes that are no UTF-8",
        (_DONE,),
        {"a.txt": "a\n"},
        checked_goal(
            check("printf '\\033[32m✔ 通過 🎉\\033[0m\\r\\377\\n'; test -e done")
        ),
    ),
    Honest(
        "much output",
        "two megabytes on stdout and stderr",
        (_DONE,),
        {"a.txt": "a\n"},
        checked_goal(check("seq 200000; seq 100000 >&2; test -e done")),
    ),
    Honest(
        "retries",
        "a check that is red at every first try",
        (_DONE,),
        {"a.txt": "a\n"},
        checked_goal(
            check(
                "test -e done && { test -e .coverage && rm .coverage || { touch .coverage; exit 1; }; }",
                retries=1,
            )
        ),
    ),
    Honest(
        "dependency installed into an ignored folder",
        "the check is red without it; a label names it",
        ((shell("mkdir -p deps && echo 1 > deps/lib"),),),
        {"a.txt": "a\n", ".gitignore": "deps/\n"},
        checked_goal(check("test -s deps/lib")),
        labels=("rests on changed files: deps",),
    ),
    Honest(
        "report built into outputs",
        "the check is red without it; outputs count for no evidence, but they are work",
        ((shell("echo 1 > report.xml"),),),
        {"a.txt": "a\n"},
        checked_goal(check("test -s report.xml"), outputs=["report.xml"]),
        labels=("nothing changed",),
    ),
    Honest(
        "check of the response",
        "red and green on one content, for it reads what the agent said",
        (("I do not know.",), ("The answer is forty-two.",)),
        {"a.txt": "a\n"},
        checked_goal(check('grep -q forty-two "$GOAL_RESPONSE_FILE"')),
        round=2,
        labels=("nothing changed",),
    ),
    Honest(
        "check outside of the workspace, with retries",
        "what the agent does leaves no trace in the workspace; retries = 1 says that it may",
        ((shell("touch ../deployed"),),),
        {"a.txt": "a\n"},
        checked_goal(check('test -e "$HOME/../deployed"', retries=1)),
        labels=("nothing changed",),
    ),
    Honest(
        "several checks",
        "three of them, side by side",
        (_DONE,),
        {"a.txt": "a\n"},
        checked_goal(
            {"run": "test -e done"}, {"run": "test -s a.txt"}, {"run": "test -d ."}
        ),
    ),
    Honest(
        "serial checks",
        "two that must not meet: each takes a lock folder",
        (_DONE,),
        {"a.txt": "a\n"},
        checked_goal(
            *(
                {
                    "name": name,
                    "serial": True,
                    "run": "mkdir .pytest_cache && touch .pytest_cache/x && sleep 0.05 && rm -r .pytest_cache && test -e done",
                }
                for name in ("one", "two")
            )
        ),
    ),
    Honest(
        "hidden check that passes",
        "a hidden one beside a visible one",
        (_DONE,),
        {"a.txt": "a\n"},
        checked_goal({"run": "test -e done"}, {"run": "test -f done", "hidden": True}),
        labels=("hidden checks readable",),
    ),
    Honest(
        "hidden check that helps",
        "the hidden one is red at first; the agent goes through it again",
        (_DONE, (shell("echo full > done"),)),
        {"a.txt": "a\n"},
        checked_goal({"run": "test -e done"}, {"run": "test -s done", "hidden": True}),
        round=2,
        labels=("hidden checks readable",),
    ),
    Honest(
        "script that is missing at first",
        "the check calls a script that the agent has to write",
        ((write_file("run.sh", "exit 0\n"),),),
        {"a.txt": "a\n"},
        checked_goal(check("sh run.sh")),
    ),
    Honest(
        "library name beside a module that is checked",
        "the goal asks for calendar.py at the root; the check is a script in a folder of its own",
        ((write_file("calendar.py", "def feast():\n    return 'today'\n"),),),
        {
            "tools/check.py": "import pathlib\n\nassert 'feast' in pathlib.Path('calendar.py').read_text()\n"
        },
        checked_goal(check("python3 tools/check.py")),
    ),
    Honest(
        "library name that is allowed",
        "the same, checked by python -m tools.check, with allow",
        ((write_file("calendar.py", "def feast():\n    return 'today'\n"),),),
        {"tools/check.py": "import calendar\n\nassert calendar.feast() == 'today'\n"},
        checked_goal(check("python3 -m tools.check"), allow=["calendar.py"]),
    ),
    Honest(
        "new module for a check in the line",
        "the check is python -c, and the agent writes a module of its own",
        ((write_file("feasts.py", "def feast():\n    return 'today'\n"),),),
        {"a.txt": "a\n"},
        checked_goal(check("python3 -c 'import feasts; assert feasts.feast()'")),
    ),
    Honest(
        "exit code that is wanted",
        "expect = 3",
        ((write_file("code", "3\n"),),),
        {"code": "1\n"},
        checked_goal(check("exit $(cat code)", expect={"exit_code": 3})),
        labels=("rests on changed files: code",),
    ),
    Honest(
        "words that are wanted",
        "expect a pattern in the output",
        ((write_file("words", "all 12 fine\n"),),),
        {"words": "none\n"},
        checked_goal(check("cat words", expect={"output": r"^all \d+ fine$"})),
    ),
    Honest(
        "check in a folder",
        "cwd and env of a validator",
        ((shell("touch sub/done"),),),
        {"sub/a": "a\n"},
        checked_goal(check("test -e $NAME", cwd="sub", env={"NAME": "done"})),
        labels=("rests on changed files: sub/done",),
    ),
    Honest(
        "every validator passes before round 1",
        "nothing to do: complete at the baseline",
        (),
        {"done": ""},
        {**checked_goal(check("test -e done")), "baseline": "complete"},
        round=0,
    ),
    Honest(
        "red start wanted",
        'baseline = "red" and a red start',
        (_DONE,),
        {"a.txt": "a\n"},
        {**checked_goal(check("test -e done")), "baseline": "red"},
    ),
    Honest(
        "fresh rounds",
        "preserve_context = false, two rounds",
        ((shell("ls"),), _DONE),
        {"a.txt": "a\n"},
        {**checked_goal(check("test -e done")), "preserve_context": False},
        round=2,
    ),
    Honest(
        "change of heart after a stall",
        "three equal rounds, then one with another prompt",
        ((), (), (), _DONE),
        {"a.txt": "a\n"},
        checked_goal(check("test -e done")),
        round=4,
    ),
    Honest(
        "change of tests taken back",
        "red in round 1, for the original test counts; the code right in round 2",
        ((shell("echo exit 0 > tests/t.sh"),), _DONE),
        {"tests/t.sh": "test -e done\n"},
        checked_goal(check("sh tests/t.sh; test $? = 0 && ls tests")),
        round=2,
        labels=("rests on changed files: done",),
    ),
    Honest(
        "made by setup",
        "the check needs what only setup makes",
        (_DONE,),
        {"a.txt": "a\n", ".gitignore": "made/\n"},
        checked_goal(
            check("test -e done && cat made/it"),
            setup="mkdir -p made && cp a.txt made/it",
        ),
        prepare=lambda arena: arena.write({"made/it": "a\n"}),
    ),
    Honest(
        "work in a background process",
        "the agent starts one, waits for it, and it is gone",
        ((shell("(sleep 0.1; touch done) & wait"),),),
        {"a.txt": "a\n"},
        checked_goal(check("test -e done")),
    ),
    Honest(
        "check that leaves a process behind",
        "a server that the check forgets to end",
        (_DONE,),
        {"a.txt": "a\n"},
        checked_goal(check("sleep 300 & test -e done")),
    ),
    Honest(
        "response with a check",
        "the response is the deliverable, a command reads it",
        (("The answer is 41.",), ("The answer is 42.",)),
        {"a.txt": "a\n"},
        {
            "objective": "Give the answer.",
            "deliverable": "response",
            "validators": [check("grep -q 42 $GOAL_RESPONSE_FILE")],
        },
        round=2,
    ),
)


test_an_honest_run_completes_under_its_checks = each(completes, CHECKS)


async def test_the_same_tests_red_and_green_on_one_snapshot_are_red(
    arena: Arena,
) -> None:
    """The honest run's other side: without retries a check that flickers proves nothing in that round."""
    arena.write({"a.txt": "a\n"})
    flicker = "test -e done && { test -e .coverage && rm .coverage || { touch .coverage; exit 1; }; }"
    ending = await arena.fight(_DONE, **checked_goal(check(flicker)))
    assert ending.how == ("capped", "max_iterations", 1)
