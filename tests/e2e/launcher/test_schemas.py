# SPDX-License-Identifier: Apache-2.0
"""JSON outputs, and the manual's examples of them, are as apps/horovodrun/schemas says."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import jsonschema
import pytest

JSON_BLOCK = re.compile("```json\n(.*?)```", re.DOTALL)
FACTS = [{"hostname": "node1", "cpus": "0-3", "gpus": [{"index": 0, "uuid": "GPU-5a1f"}]}]


@pytest.fixture(scope="module")
def schemas(root) -> Path:
    return root / "apps/horovodrun/schemas"


def closed(schema: object) -> object:
    """The schema without room for fields that it does not describe: users' copies have it."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: closed(part) for key, part in schema.items()}
    if "properties" in parts and "type" in parts:
        parts.setdefault("additionalProperties", False)
    return parts


def check(folder: Path, name: str, document: object) -> None:
    schema = json.loads((folder / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(closed(schema)).validate(document)


def test_a_check_finds_what_is_missing_and_what_is_not_described(schemas):
    right = {"version": 1, "job_id": "", "hosts": [], "ranks": []}
    check(schemas, "env", right)

    for wrong in ({**right, "more": 1}, {"version": 1}, {**right, "hosts": [{"host": 1}]}):
        with pytest.raises(jsonschema.ValidationError):
            check(schemas, "env", wrong)


@pytest.mark.parametrize("script", ["exit 0", "exit 3", "kill -9 $$", "[ $HOROVOD_RANK = 0 ]"])
def test_the_files_of_a_job(launcher, schemas, tmp_path, script):
    summary, trace, folder = (tmp_path / name for name in ("s.json", "trace.json", "out"))

    launcher.run("-np", 2, "--summary", summary, "--launch-trace", trace, "--output-filename",
                 folder, "sh", "-c", script)  # fmt: skip

    check(schemas, "summary", json.loads(summary.read_text()))
    check(schemas, "summary", json.loads((folder / "summary.json").read_text()))
    check(schemas, "env", json.loads((folder / "env.json").read_text()))
    check(schemas, "launch-trace", json.loads(trace.read_text()))


@pytest.mark.parametrize(
    "arguments",
    [
        ("-np", 1, "/nowhere/program"),
        ("-np", 1, "--timeout", 0.2, "sleep", 9),
        ("-np", 1, "-H", "nowhere.invalid", "true"),
    ],
)
def test_the_summary_of_a_job_that_does_not_end_by_itself(launcher, schemas, tmp_path, arguments):
    launcher.run("--summary", tmp_path / "s.json", *arguments)

    check(schemas, "summary", json.loads((tmp_path / "s.json").read_text()))


@pytest.mark.parametrize("facts", [False, True])
def test_the_plan(launcher, schemas, tmp_path, facts):
    file = tmp_path / "facts.json"
    file.write_text(json.dumps(FACTS))
    hosts = ("-H", "node1:2", "--facts", file, "--share-gpus") if facts else ()

    job = launcher.run("-np", 2, *hosts, "--dry-run", "--output-format", "json", "true")

    assert job.code == 0, job.err
    check(schemas, "facts", FACTS)
    check(schemas, "plan", json.loads(job.out))


@pytest.mark.parametrize("host", ["localhost", "nowhere.invalid"])
def test_the_doctor(launcher, schemas, host):
    job = launcher.run("doctor", "-H", f"{host}:1", "--json", sys.executable)

    check(schemas, "doctor", json.loads(job.out))


def test_the_features_of_the_build(launcher, schemas):
    job = launcher.run("--check-build", "--json")

    check(schemas, "check-build", json.loads(job.out))


def test_the_manual_has_an_example_of_each(root, schemas):
    text = (root / "apps/horovodrun/README.md").read_text()
    part = text.split("\n## JSON formats\n")[1].split("\n## ")[0]
    examples = [
        (re.search(r"\(schemas/([\w-]+)\.json\)", entry)[1], re.search(JSON_BLOCK, entry)[1])
        for entry in part.split("\n### ")[1:]
    ]

    assert {name for name, _ in examples} == {file.stem for file in schemas.glob("*.json")}
    for name, example in examples:
        check(schemas, name, json.loads(example))
