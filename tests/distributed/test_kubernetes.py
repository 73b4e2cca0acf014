"""The manifest of a training on Kubernetes: what the official schema says of it, and what its pods are told."""

import re
import subprocess
import sys
from pathlib import Path

import click
import kubernetes_validate
import pytest
import yaml

from ctrlab.cli.workers.training import resumable
from ctrlab.distributed.kubernetes import kubernetes_job
from ctrlab.distributed.place import Place, given_place, threads_of
from ctrlab.errors import CtrlabError, WorkerLost

VERSIONS = ("1.33", kubernetes_validate.latest_version())
COMMAND = ["ctrlab", "train", "dlrm", "--checkpoint", "/shared/run", "--resume"]


def manifest(workers=3, command=COMMAND, **options) -> str:
    return kubernetes_job(command, workers, **{"image": "registry:5000/lab:1", "claim": "runs"} | options)


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


@pytest.mark.parametrize("workers", [1, 3, 12])
def test_each_pod_knows_its_place(workers, monkeypatch):
    service, job = validated(manifest(workers, name="ctr-7"))
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"] == workers
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
        assert Place(names, index).config() == {"TF_CONFIG": environment(job, index)["TF_CONFIG"]}


def test_how_a_worker_ends_decides_what_the_job_does():
    _, job = validated(manifest())
    spec = job["spec"]
    by_code = {c: r["action"] for r in spec["podFailurePolicy"]["rules"] for c in r.get("onExitCodes", {"values": []})["values"]}
    assert by_code == {WorkerLost.exit_code: "Ignore", click.UsageError.exit_code: "FailJob"}
    assert spec["template"]["spec"]["restartPolicy"] == "Never"  # what these rules need
    assert spec["backoffLimitPerIndex"] > 0 and spec["maxFailedIndexes"] == 0 and "backoffLimit" not in spec


def test_words_arrive_as_they_are():
    odd = ["ctrlab", "train", "$(HOME)", "$$", "a 'b' \"c\"", "x: y # z", "l\nm", "é", "", "/shared/😀", "\x7f\x85\u2028\ufeff"]
    assert "\\ud8" not in manifest(command=odd)  # half a letter: YAML in Go refuses it, this reader does not
    _, job = validated(manifest(command=odd, memory="500M", cpus=2))
    assert [expanded(word, environment(job, 0)) for word in container(job)["command"]] == odd
    assert container(job)["image"] == "registry:5000/lab:1"
    assert container(job)["resources"]["requests"] == {"cpu": 2, "memory": "500M"}
    assert threads_of(2).items() <= environment(job, 0).items()


@pytest.mark.parametrize("name", ["true", "y", "no", "null", "off", "e3"])
def test_names_are_text(name):
    service, job = validated(manifest(name=name, claim="1e3", image="0x10", memory="67108864"))
    assert service["metadata"]["name"] == job["metadata"]["name"] == name
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}
    pod = job["spec"]["template"]["spec"]
    assert pod["subdomain"] == name and pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == "1e3"
    assert container(job)["image"] == "0x10" and container(job)["resources"]["limits"] == {"memory": "67108864"}


@pytest.mark.parametrize("memory", ["70000k", "16E", "1.5Gi", "64Mi", "0.25Ti"])
def test_memory_has_the_suffixes_of_kubernetes(memory):
    assert container(validated(manifest(memory=memory))[1])["resources"]["requests"]["memory"] == memory


@pytest.mark.parametrize(
    ("good", "broken"),
    [
        ("completionMode: Indexed", "completionModus: Indexed"),
        ("completions: 3", "completions: three"),
        ("operator: In\n", "operators: In\n"),
        ("publishNotReadyAddresses: true", "publishNotReadyAddresses: yes please"),
        ("        - name: worker\n          image", "        - image"),
        ("              value: '{", "              values: '{"),
    ],
)
def test_a_broken_manifest_is_refused(good, broken):
    text = manifest()
    assert good in text
    with pytest.raises(kubernetes_validate.ValidationError):
        validated(text.replace(good, broken))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"workers": 0}, r"at least one worker.*received 0 workers of 4 CPUs"),
        ({"workers": 100_001}, r"at most 100,000, .*received 100001 workers"),
        ({"workers": 6_000}, r"a variable has at most 131,071 bytes; received 6,000 workers"),
        ({"image": ""}, "An image is a name .* received ''"),
        ({"image": "a b"}, "An image is a name .* received 'a b'"),
        ({"claim": ""}, "name of a claim .* received ''"),
        ({"claim": "My Claim"}, "name of a claim .* received 'My Claim'"),
        ({"command": ["a\udcff"]}, r"A manifest is text in UTF-8; received .*a\\udcff"),
        ({"memory": "0"}, "at least 64Mi; received '0'"),
        ({"memory": "63Mi"}, "at least 64Mi; received '63Mi'"),
        ({"memory": "16K"}, "one of k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, .*; received '16K'"),
        ({"memory": "500m"}, "received '500m'"),
        ({"name": "Train_1"}, r"has small letters, digits and hyphens.*received 'Train_1'"),
        ({"name": "a" * 62}, "whose last pod is 'aa"),
        ({"name": "x\n"}, "has small letters"),
        ({"memory": "16 GB"}, r"Memory is a number .* such as 16Gi or 500M, .*; received '16 GB'"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused_here(options, says):
    with pytest.raises(CtrlabError, match=f"(?i){says}"):
        manifest(**options)


def ctrlab(*words):
    return subprocess.run([sys.executable, "-m", "ctrlab", "workers", "kubernetes", *words], capture_output=True, text=True)


def test_the_command_prints_it():
    options = ["--workers", "3", "--image", "registry:5000/lab:1", "--claim", "runs", "--"]
    ran = ctrlab(*options, "train", "dlrm", "--checkpoint", "/shared/run")
    assert ran.returncode == 0 and ran.stdout == manifest()
    for words, code, says in (
        (["train", "dlrm", "--checkpoint", "run"], 1, "a folder below /shared"),
        (["train", "dlrm", "--checkpoint", "/shared/../run"], 1, "a folder below /shared"),
        (["train", "dlrm", "--checkpoint", "/shared/run", "--workers", "2"], 1, "leave out the --workers"),
        (["race"], 1, "received race"),
        (["train", "dlrm", "--chekpoint", "/shared/run"], 2, "No such option: --chekpoint"),
    ):
        ran = ctrlab(*options, *words)
        assert ran.returncode == code and says in ran.stderr and not ran.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--full-every 2", "add --embedding variable"),
        ("--publish-every 0s", "--publish-every takes a time above 0"),
        ("--idle 5s", "name the folder with --follow"),
        ("--save /shared/x.keras", "--save takes a whole model"),
        ("--optimizations nosuch", "Unknown optimization 'nosuch'"),
        ("--profile nosuch", "Unknown profile 'nosuch'"),
        ("--units zzz", "received 'zzz'"),
        ("--dropout 2", r"`dropout` must be in \[0, 1\)"),
        ("--validation 10%", "leave out --follow and --validation"),
        ("--follow /shared/joined", "leave out --follow and --validation"),
        ("--publish models", "Workers keep files below /shared, which all share; received --publish models"),
        ("--publish /shared/../models", "received --publish /shared/../models"),
    ],
)
def test_what_train_would_refuse_is_refused_here(words, says):
    with pytest.raises(CtrlabError, match=says):
        resumable(["train", "dlrm", "--checkpoint", "/shared/run", *words.split()], 2, Path("/shared"))


def test_one_worker_may_do_what_several_may_not():
    words = ["train", "dlrm", "--checkpoint", "/shared/a/../run", "--validation", "10%", "--save", "/shared/x.keras"]
    assert resumable(words, 1, Path("/shared")) == [*words, "--resume"]
    with pytest.raises(CtrlabError, match=r"received --save x\.keras"):
        resumable([*words[:-1], "x.keras"], 1, Path("/shared"))


def test_a_manifest_needs_no_tensorflow():
    words = ["--workers", "2", "--image", "a", "--claim", "b", "--", "train", "dlrm", "--checkpoint", "/shared/run"]
    program = f"import sys; from ctrlab.cli import app; app({['workers', 'kubernetes', *words]}, standalone_mode=False)"
    code = f"{program}; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).returncode == 0
