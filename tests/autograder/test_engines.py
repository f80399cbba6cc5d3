"""Engines: a cluster is opened by name, over TLS with one certificate."""

import os
import re
import shutil
import subprocess
import sys

import dask_tls
import pytest
from distributed import LocalCluster
from small_course import NAME

from autograder.engine import dask_executor, dask_worker, executors
from autograder.engine.dask_executor import DaskExecutor
from autograder.job.forkserver import InfrastructureError
from autograder.model.course import CourseError, checkout


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return dask_tls.write(tmp_path_factory.mktemp("tls") / "new")


def test_what_decides_a_verdict_is_compared_by_name(small, monkeypatch):
    ours = dask_worker.parts(small, NAME)
    monkeypatch.chdir(small.root)
    assert dask_worker.differs(NAME, ours) == ""
    assert ours.keys() == dask_worker.MENDS.keys()
    for name in ours:
        assert dask_worker.MENDS[name] in dask_worker.differs(NAME, ours | {name: "other"})
    assert "same course" in dask_worker.differs("91_absent", ours)


def test_a_scheduler_without_tls_or_none_at_all_is_refused_with_the_mend(tls, monkeypatch):
    monkeypatch.setattr(dask_executor, "CONNECT", 3)
    with LocalCluster(n_workers=0, protocol="tcp://", dashboard_address=":0", processes=False) as made:
        address = made.scheduler_address.replace("tcp", "tls")
        with pytest.raises(InfrastructureError, match="start it with --protocol tls"):
            DaskExecutor(address, dask_executor.security(tls))
    with pytest.raises(InfrastructureError, match="no Dask scheduler answers"):
        DaskExecutor(address, dask_executor.security(tls))


def test_a_key_that_others_can_read_is_refused(tmp_path):
    tls = dask_tls.write(tmp_path / "new")
    assert (tls / "key.pem").stat().st_mode & 0o777 == 0o600
    (tls / "key.pem").chmod(0o644)
    with pytest.raises(CourseError, match=r"key.pem: others can read it; chmod 600"):
        dask_executor.security(tls)
    with pytest.raises(CourseError, match=r"docs/scale\.md has the command"):
        dask_executor.security(tmp_path)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ("dusk://here:8786", "write local or dask://HOST:PORT"),
        ("dask://here", "write local or dask://HOST:PORT"),
        ("dask://here:8786", "add --tls FOLDER"),
    ],
)
def test_an_engine_that_is_none_is_refused_with_the_mend(small, said, says):
    with pytest.raises(CourseError, match=says), executors.opened(said, small, NAME):
        pass


@pytest.mark.whole
def test_the_batch_file_of_the_page_starts_a_worker_that_grades_by_the_same_course(small, tls, tmp_path):
    page = (checkout() / "docs" / "scale.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"^```bash\n(#!/bin/bash\n.*?)```", page, re.DOTALL | re.MULTILINE)
    shared = tmp_path / "shared"
    shutil.copytree(small.root, shared)
    (shared / ".venv").symlink_to(sys.prefix)
    (shared / "tls").symlink_to(tls)
    file = tmp_path / "workers.sbatch"
    file.write_text(script.replace("/shared/across", str(shared)))
    with LocalCluster(
        n_workers=0, protocol="tls://", security=dask_executor.security(tls), dashboard_address=":0", processes=False
    ) as made:
        host, port = made.scheduler_address.removeprefix("tls://").split(":")
        file.write_text(file.read_text().replace("8786", port))
        environment = os.environ | {"SLURM_CPUS_PER_TASK": "3"}
        worker = subprocess.Popen(["bash", str(file), host], env=environment, start_new_session=True)
        try:
            with executors.opened(f"dask://{host}:{port}", small, NAME, tls) as executor:
                assert executor is not None
                assert [each["nthreads"] for each in made.scheduler_info["workers"].values()] == [3]
        finally:
            worker.terminate()
            worker.wait(60)
