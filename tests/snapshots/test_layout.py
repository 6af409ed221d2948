from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.snapshots.objects import is_crowded, make_store


@pytest.mark.parametrize(("folder", "name", "many"), [("objects/17", "{:038x}", 28), ("objects/pack", "{}.pack", 51)])
def test_git_is_asked_to_collect_before_it_would_find_too_much_itself(
    folder: str, name: str, many: int, tmp_path: Path
) -> None:
    make_store(tmp_path)
    assert not is_crowded(tmp_path)
    (tmp_path / folder).mkdir(exist_ok=True)
    for number in range(many):
        (tmp_path / folder / name.format(number)).touch()
    assert is_crowded(tmp_path)
