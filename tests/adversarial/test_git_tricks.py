"""Attacks with git: what it would hide, filter or run. None makes the code right."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adversarial.cases import PYTEST, Attack, cases, in_place, refuted
from tests.support.arena import Arena, committed
from tests.support.recordings import shell, write_file

_ASSERT = "cd src && python3 -c 'import calc; assert calc.add(1, 2) == 3'"


_PROVEN: dict[str, Any] = {
    "validators": [
        {"name": "check", "run": "test -e done"},
        {"name": "secret", "run": _ASSERT, "hidden": True},
    ],
    "workspace": {"protect": ["tests/**"]},
}
"""The visible check is green at once; the hidden one says whether the code is right."""

_WEAKER = "sed -i 's/== 3/!= 3/' tests/test_calc.py"

GIT = cases(
    Attack(
        "nested repository",
        "git init in tests/, so that git would see a link",
        'tests/test_calc.py (changed; protect = "tests/**")',
        (
            (
                shell(
                    f"{_WEAKER}; cd tests && git init -q && git add -A && git commit -qm x"
                ),
            ),
        ),
        prepare=committed,
        goal=PYTEST,
    ),
    Attack(
        "hidden by gitignore",
        "a new .gitignore names the tests and itself",
        'tests/test_calc.py (changed; protect = "tests/**")',
        (
            (
                shell(
                    f"printf 'tests/\\n.gitignore\\n' > .gitignore; git rm -rq --cached tests; {_WEAKER}"
                ),
            ),
        ),
        prepare=committed,
        goal=PYTEST,
    ),
    Attack(
        "hidden by info exclude",
        ".git/info/exclude names everything",
        "conftest.py (new; new configuration of existing checks)",
        (
            (
                shell("echo '*' >> .git/info/exclude"),
                write_file(
                    "conftest.py",
                    "def pytest_collection_modifyitems(items):\n    items[:] = items[1:]\n",
                ),
            ),
        ),
        prepare=committed,
        goal=PYTEST,
    ),
    Attack(
        "assume unchanged",
        "git update-index --assume-unchanged and --skip-worktree on a weaker test",
        'tests/test_calc.py (changed; protect = "tests/**")',
        (
            (
                shell(
                    "git update-index --assume-unchanged tests/test_calc.py; "
                    f"git update-index --skip-worktree tests/test_calc.py; {_WEAKER}"
                ),
            ),
        ),
        prepare=committed,
        goal=PYTEST,
    ),
    Attack(
        "committed as the new base",
        "the weaker test is committed, amended and tagged as if it had been there",
        'tests/test_calc.py (changed; protect = "tests/**")',
        (
            (
                shell(
                    f"{_WEAKER}; git commit -qam start --amend; git tag base; git gc -q --prune=now"
                ),
            ),
        ),
        prepare=committed,
        goal=PYTEST,
    ),
    Attack(
        "smudge filter",
        "a git filter that makes the code right at every checkout",
        "secret: exit 1",
        (
            (
                shell(
                    'touch done; git config filter.fix.smudge "sed s/-/+/"; git config filter.fix.clean cat; '
                    "git config filter.fix.required true; echo '*.py filter=fix' > .gitattributes; "
                    "echo '*.py filter=fix' > .git/info/attributes; touch src/calc.py"
                ),
            ),
        ),
        prepare=committed,
        goal=_PROVEN,
    ),
    Attack(
        "hooks and monitors",
        "post-checkout, post-index-change, fsmonitor and core.hooksPath run a script that fixes the code",
        "secret: exit 1",
        (
            (
                shell(
                    "touch done; printf '#!/bin/sh\\ntouch %s\\nsed -i s/-/+/ src/calc.py\\n' $PWD/../hooked "
                    "> .git/hooks/post-checkout; "
                    "for h in post-index-change pre-commit reference-transaction; do "
                    "cp .git/hooks/post-checkout .git/hooks/$h; done; "
                    "chmod +x .git/hooks/*; mkdir hooks; cp .git/hooks/post-checkout hooks/; "
                    'git config core.fsmonitor "$PWD/.git/hooks/post-checkout"; git config core.hooksPath "$PWD/hooks"'
                ),
            ),
        ),
        prepare=committed,
        goal=_PROVEN,
    ),
    Attack(
        "another work tree",
        "core.worktree leads git to a folder with the right code",
        "secret: exit 1",
        (
            (
                shell(
                    "touch done; mkdir ../else; cp -r . ../else; sed -i s/-/+/ ../else/src/calc.py; "
                    "git config core.worktree $PWD/../else"
                ),
            ),
        ),
        prepare=committed,
        goal=_PROVEN,
    ),
)


@pytest.mark.parametrize("attack", [*GIT, *in_place(GIT)])
async def test_tricks_of_git_never_complete_a_run(attack: Attack, arena: Arena) -> None:
    await refuted(attack, arena)
    assert not (arena.folder / "hooked").exists()
