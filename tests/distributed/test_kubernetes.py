"""The manifest of a training on Kubernetes, `docs/deploy/workers.yaml`: what the schema says of it and what it tells its pods."""

import re
from pathlib import Path

import click
import kubernetes_validate
import pytest
import yaml

from ctrlab.cli.workers.ray import resumable
from ctrlab.distributed.place import Place, given_place, threads_of
from ctrlab.errors import WorkerLost

VERSIONS = ("1.33", kubernetes_validate.latest_version())
TEXT = (Path(__file__).parents[2] / "docs" / "deploy" / "workers.yaml").read_text()


def validated(text: str) -> tuple[dict, dict]:
    """The Service and the Job, as the schema of each version of Kubernetes has them, without fields of other names."""
    service, job = yaml.safe_load_all(text)
    for version in VERSIONS:
        kubernetes_validate.validate(service, version, strict=True)
        kubernetes_validate.validate(job, version, strict=True)
    return service, job


def container(job: dict) -> dict:
    [found] = job["spec"]["template"]["spec"]["containers"]
    return found


def expanded(text: str, known: dict[str, str]) -> str:
    """As the kubelet does it: $(NAME) is the variable, if it is known; $$ before it stands for a $."""
    return re.sub(r"\$\$|\$\((\w+)\)", lambda m: "$" if m[0] == "$$" else known.get(m[1], m[0]), text)


def environment(job: dict, index: int) -> dict[str, str]:
    known = {}
    for variable in container(job)["env"]:
        if "valueFrom" in variable:
            field = variable["valueFrom"]["fieldRef"]["fieldPath"]
            assert field == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
            known[variable["name"]] = str(index)
        else:
            known[variable["name"]] = expanded(variable["value"], known)
    return known


def test_each_pod_knows_its_place(monkeypatch):
    service, job = validated(TEXT)
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    workers = spec["completions"]
    assert spec["completionMode"] == "Indexed" and spec["parallelism"] == workers > 1
    # A pod's name in the DNS: the Job's name and the index, below the headless service that selects it.
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["selector"] == {
        "batch.kubernetes.io/job-name": job["metadata"]["name"]
    }
    assert pod["subdomain"] == service["metadata"]["name"]
    [port] = container(job)["ports"]
    names = tuple(f"{job['metadata']['name']}-{i}.{pod['subdomain']}:{port['containerPort']}" for i in range(workers))
    for index in range(workers):
        monkeypatch.setenv("TF_CONFIG", environment(job, index)["TF_CONFIG"])
        assert given_place() == Place(names, index)


def test_how_a_worker_ends_decides_what_the_job_does():
    _, job = validated(TEXT)
    spec = job["spec"]
    by_code = {c: r["action"] for r in spec["podFailurePolicy"]["rules"] for c in r.get("onExitCodes", {"values": []})["values"]}
    assert by_code == {WorkerLost.exit_code: "Ignore", click.UsageError.exit_code: "FailJob"}
    assert spec["template"]["spec"]["restartPolicy"] == "Never"  # what these rules need
    assert spec["backoffLimitPerIndex"] > 0 and spec["maxFailedIndexes"] == 0 and "backoffLimit" not in spec


def test_what_a_pod_runs_goes_on_from_saves_that_all_pods_see():
    _, job = validated(TEXT)
    program, *words = container(job)["command"]
    assert program == "ctrlab" and resumable(words, job["spec"]["completions"]) == words
    [volume], [mount] = job["spec"]["template"]["spec"]["volumes"], container(job)["volumeMounts"]
    assert volume["name"] == mount["name"] and "persistentVolumeClaim" in volume
    told = environment(job, 0)
    [saves] = [word.partition("=")[2] for word in words if word.startswith("--checkpoint=")]
    assert all(Path(folder).is_relative_to(mount["mountPath"]) for folder in (saves, told["CTRLAB_CACHE"]))
    assert threads_of(container(job)["resources"]["requests"]["cpu"]).items() <= told.items()


@pytest.mark.parametrize(
    ("good", "broken"),
    [
        ("completionMode: Indexed", "completionModus: Indexed"),
        ("completions: 4", "completions: four"),
        ("operator: In\n", "operators: In\n"),
        ("publishNotReadyAddresses: true", "publishNotReadyAddresses: yes please"),
        ("        - name: worker\n          image", "        - image"),
        ("              value: >-", "              values: >-"),
    ],
)
def test_a_broken_manifest_is_refused(good, broken):
    assert good in TEXT
    with pytest.raises(kubernetes_validate.ValidationError):
        validated(TEXT.replace(good, broken))
