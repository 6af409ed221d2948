from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from goalrunner.clusters.manifests import (
    JobSettings,
    Resources,
    github_matrix,
    kubernetes,
    kubernetes_workers,
    slurm,
)
from goalrunner.clusters.tasks import Task, TaskList
from goalrunner.core.errors import UsageError

yaml = pytest.importorskip("yaml")

HOSTILE = "a: {b} # \"c\" 'd' $(touch pwned) `e` \\"
TASKS = TaskList(
    "night",
    "https://git.example.org/p.git?a=1&b=2",
    "0" * 40,
    (
        Task("night-one", "goals/one.toml", "Make it."),
        Task("night-two", "goals/it's $(here).toml", HOSTILE),
    ),
)
SETTINGS = JobSettings(jobs=3, resources=Resources(), image="example.org/goal:1")


def documents(settings: JobSettings = SETTINGS) -> dict[str, Any]:
    loaded = yaml.safe_load_all(kubernetes(TASKS, settings))
    return {document["kind"]: document for document in loaded}


def test_kubernetes_gets_an_index_for_each_goal() -> None:
    made = documents()
    job = made["Job"]["spec"]
    assert job["completionMode"] == "Indexed"
    assert (job["completions"], job["parallelism"]) == (2, 3)
    assert job["podReplacementPolicy"] == "Failed"
    assert job["backoffLimitPerIndex"] == 3
    lines = made["ConfigMap"]["data"]["tasks"].splitlines()
    assert lines == [f"{task.run_id} {task.goal_file}" for task in TASKS.tasks]


def test_a_goal_that_is_not_verified_is_not_tried_again() -> None:
    rules = documents()["Job"]["spec"]["podFailurePolicy"]["rules"]
    assert rules[0]["action"] == "FailIndex"
    assert rules[0]["onExitCodes"]["values"] == [1, 2, 3]


def test_secrets_are_named_and_not_contained() -> None:
    made = documents(replace(SETTINGS, secrets=("keys", "more")))
    (container,) = made["Job"]["spec"]["template"]["spec"]["containers"]
    names = [source["secretRef"]["name"] for source in container["envFrom"]]
    assert names == ["keys", "more"]
    assert "Secret" not in made


def test_resources_are_those_of_the_option() -> None:
    settings = replace(SETTINGS, resources=Resources.of("cpu=8,memory=512Mi,gpu=2"))
    (container,) = documents(settings)["Job"]["spec"]["template"]["spec"]["containers"]
    amounts = {"cpu": "8", "memory": "512Mi", "nvidia.com/gpu": "2"}
    assert container["resources"] == {"requests": amounts, "limits": amounts}
    script = slurm(TASKS, settings)
    assert "#SBATCH --cpus-per-task=8\n#SBATCH --mem=512M\n" in script
    assert "#SBATCH --gpus-per-task=2\n" in script


@pytest.mark.parametrize(
    "text", ["cpu", "cpu=0", "cpu=1.5", "memory=4", "memory=4GB", "disk=1", "cpu=2;x"]
)
def test_resources_in_another_form_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--resources"):
        Resources.of(text)


def test_an_own_volume_claim_is_used_and_none_is_made() -> None:
    made = documents(replace(SETTINGS, claim="shared"))
    assert "PersistentVolumeClaim" not in made
    volume = made["Job"]["spec"]["template"]["spec"]["volumes"][0]
    assert volume["persistentVolumeClaim"]["claimName"] == "shared"
    assert "PersistentVolumeClaim" in documents()


def test_workers_are_a_deployment_whose_database_is_in_a_secret() -> None:
    settings = replace(SETTINGS, secrets=("keys",))
    made = yaml.safe_load(kubernetes_workers("goal-fleet", settings))
    assert (made["kind"], made["spec"]["replicas"]) == ("Deployment", 3)
    template = made["spec"]["template"]
    assert made["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    (container,) = template["spec"]["containers"]
    assert container["command"] == ["goal", "fleet", "worker", "--jobs", "1"]
    database = container["env"][0]["valueFrom"]["secretKeyRef"]
    assert database == {"name": "goal-fleet", "key": "GOAL_FLEET"}
    assert container["envFrom"] == [{"secretRef": {"name": "keys"}}]
    assert template["spec"]["terminationGracePeriodSeconds"] >= 60


def test_workers_need_an_image_and_a_name_of_kubernetes() -> None:
    with pytest.raises(UsageError, match="image"):
        kubernetes_workers("goal-fleet", replace(SETTINGS, image=None))
    with pytest.raises(UsageError, match="name"):
        kubernetes_workers("Fleet: x", SETTINGS)


def test_kubernetes_needs_an_image() -> None:
    with pytest.raises(UsageError, match="image"):
        kubernetes(TASKS, replace(SETTINGS, image=None))


@pytest.mark.parametrize("write", [kubernetes, slurm])
def test_jobs_need_a_repository_to_clone(write: Any) -> None:
    with pytest.raises(UsageError, match="--repository"):
        write(replace(TASKS, repository=""), SETTINGS)


def test_slurm_gets_a_script_whose_settings_come_before_its_first_command() -> None:
    lines = slurm(TASKS, SETTINGS).splitlines()
    first_command = next(
        number for number, line in enumerate(lines) if line[:1] not in ("", "#")
    )
    settings = [line for line in lines if line.startswith("#SBATCH")]
    assert settings == [
        line for line in lines[:first_command] if line.startswith("#SBATCH")
    ]
    assert "#SBATCH --array=0-1%3" in settings
    assert "#SBATCH --requeue" in settings


def test_a_shell_reads_the_script_of_slurm_and_runs_no_text_of_a_goal() -> None:
    script = slurm(TASKS, SETTINGS)
    # Without the task itself, the script prints what it has chosen.
    chosen = (
        script[: script.index("set -eu")] + '\nprintf "%s|%s" "$GOAL_ID" "$GOAL_FILE"'
    )
    done = subprocess.run(
        ["sh", "-euc", chosen],
        env={"SLURM_ARRAY_TASK_ID": "1", "HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "night-two|goals/it's $(here).toml"


def test_github_gets_one_line_that_is_a_matrix() -> None:
    text = github_matrix(TASKS)
    assert text.count("\n") == 1
    assert json.loads(text)["include"][0] == {
        "id": "night-one",
        "goal": "goals/one.toml",
    }


def test_a_matrix_of_more_jobs_than_github_allows_is_refused() -> None:
    with pytest.raises(UsageError, match="257 goals"):
        github_matrix(replace(TASKS, tasks=TASKS.tasks[:1] * 257))
