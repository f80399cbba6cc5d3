"""Engines: a cluster is opened by name, over TLS with one certificate; what Slurm gets."""

import shlex
from itertools import pairwise

import pytest
from distributed import LocalCluster
from small_course import NAME

from autograder.engine import clusters, dask_executor, dask_worker, executors
from autograder.engine.dask_executor import DaskExecutor
from autograder.job.forkserver import InfrastructureError
from autograder.model.course import CourseError


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls") / "new"
    dask_executor.write_certificates(folder)
    return folder


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
    dask_executor.write_certificates(tmp_path / "tls")
    (tmp_path / "tls" / "key.pem").chmod(0o644)
    with pytest.raises(CourseError, match=r"key.pem: others can read it; chmod 600"):
        dask_executor.security(tmp_path / "tls")


def test_a_certificate_is_private_and_never_replaced(tls):
    assert oct((tls / "key.pem").stat().st_mode & 0o777) == "0o600"
    before = (tls / "key.pem").read_bytes()
    with pytest.raises(CourseError, match="a certificate already"):
        dask_executor.write_certificates(tls)
    assert (tls / "key.pem").read_bytes() == before


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ("dusk://here:8786", "write local, dask://HOST:PORT or slurm:FILE"),
        ("dask://here", "write local, dask://HOST:PORT"),
        ("dask://here:8786", "add --tls FOLDER"),
        ("slurm:absent.toml", "absent.toml: cannot be read"),
    ],
)
def test_an_engine_that_is_none_is_refused_with_the_mend(small, said, says):
    with pytest.raises(CourseError, match=says), executors.opened(said, small, NAME):
        pass


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('quue = "short"', "unknown key 'quue'; it knows"),
        ("", "tls is missing; write the folder that `autograder certificates` wrote"),
        ('tls = "t"', "course is missing"),
        ('tls = "t"\ncourse = "/c"\ncores = "four"', "cores = 'four'; write a number"),
        ('tls = "t"\ncourse = "/c"\nwalltime = "tomorrow"', 'write it like "04:00:00"'),
        ('tls = "t"\ncourse = "/c\\nrm -r /"', "write a line in quotes"),
        ('tls = "t"\ncourse = "/c"\ndirectives = "x"', "write a list of lines"),
        ('tls = "t"\ncourse = "/c"\nmemory = "much"', 'write it like "16GiB"'),
        ("tls = [", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_right_is_refused_with_its_key(tmp_path, line, says):
    file = tmp_path / "cluster.toml"
    file.write_text(line)
    with pytest.raises(CourseError) as raised:
        clusters.read(file)
    assert says in str(raised.value)
    assert str(file) in str(raised.value)


def test_slurm_gets_a_script_that_starts_a_worker_with_tls(tls, tmp_path):
    file = tmp_path / "slurm.toml"
    file.write_text(
        f'tls = "{tls}"\ncourse = "/shared/across"\ncores = 4\nmemory = "12GiB"\ngpus = 2\nqueue = "short"\n'
        'account = "teaching"\nwalltime = "02:30:00"\ninterface = "ib0"\ndirectives = ["--exclusive"]\n'
    )
    lines = executors.shown(f"slurm:{file}").splitlines()
    assert "no Slurm was there" in lines[0]
    directives = [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")]
    for wanted in (
        "-p short",
        "-A teaching",
        "--cpus-per-task=4",
        "--mem=12G",
        "-t 02:30:00",
        "--exclusive",
        "--gres=gpu:2",
    ):
        assert wanted in directives
    assert "cd /shared/across" in lines
    [command] = [shlex.split(line) for line in lines if "dask_worker" in line and "python" in line]
    assert command[:4] == [
        "/shared/across/.venv/bin/python",
        "-m",
        "distributed.cli.dask_worker",
        "tls://SCHEDULER:8786",
    ]
    options = dict(pairwise(command[4:]))  # a later one counts, as for the worker
    key, certificate = str(tls / "key.pem"), str(tls / "cert.pem")
    assert options["--nthreads"] == "4"
    assert (options["--memory-limit"], options["--resources"]) == ("0", "GPU=2")
    assert (options["--protocol"], options["--interface"]) == ("tls://", "ib0")
    assert (options["--tls-key"], options["--tls-cert"], options["--tls-ca-file"]) == (key, certificate, certificate)
    assert options["--preload"] == "autograder.engine.dask_worker"
