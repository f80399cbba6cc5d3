"""Grading a class on workers of Dask: the same marks, whatever becomes of the workers; and what Slurm and Kubernetes get."""

# ruff: noqa: F811 - fixtures are imported

import os
import shlex
import shutil
import signal
import socket
import threading
import time
from contextlib import chdir, contextmanager
from itertools import pairwise

import chaos
import pytest
import yaml
from distributed import LocalCluster
from test_engine import NAME, RIGHT, hand_in, points, small  # noqa: F401

from autograder.engine import class_run, clusters, dask_executor, dask_worker, executors
from autograder.engine.dask_executor import DaskExecutor
from autograder.gradebook import record
from autograder.job import forkserver
from autograder.job.forkserver import InfrastructureError
from autograder.model.course import Course, CourseError
from autograder.report import outputs
from autograder.sandbox import boxes

pytestmark = pytest.mark.skipif(bool(boxes.problem()), reason=boxes.problem())

CLASS = {
    "ada": RIGHT,
    "bob": RIGHT | {"double": "def double(x):\n    return x * x"},
    "cem": {},
    "dan": {},
    "eve": RIGHT | {"double": "import os; os._exit(3)"},
    "fay": RIGHT | {"shift": "def shift(x, by):\n    raise ValueError('no')"},
}


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls") / "new"
    dask_executor.write_certificates(folder)
    return folder


@contextmanager
def cluster(tls, root, workers, mark="", **more):
    """A scheduler and workers on this machine; theirs is the course at `root`, and `mark` is in all that they start."""
    env = {"PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(mark)])}
    with (
        chdir(root),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            protocol="tls://",
            security=dask_executor.security(tls),
            dashboard_address=":0",
            env=env,
            preload=["autograder.engine.dask_worker"],
            **more,
        ) as made,
    ):
        yield made, made.scheduler_address.replace("tls://", "dask://")


@pytest.fixture
def class_(hand_in):
    for student, answers in CLASS.items():
        folder = hand_in(student, answers)
    return folder


def graded(small, folder, out, executor=None, **how):
    """Grade into `out`, which draws the inputs that every other one draws; return all that it then says."""
    out.mkdir()
    (out / ".seed").write_bytes(b"s" * 32)
    result = class_run.grade_class(small, NAME, folder, out, executor=executor, **how)
    assert result.faults == {}
    assert sorted(result.graded) == sorted(CLASS)
    outputs.write(out, small.chapter(NAME), faults={}, workers=1)
    return chaos.meaning(out)


def alike(one, other):
    return [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)] == []


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_give_the_gradebook_that_this_machine_gives(tls, small, class_, tmp_path, workers):
    wanted = graded(small, class_, tmp_path / "local")
    elsewhere = shutil.copytree(small.root, tmp_path / "elsewhere")
    with (
        cluster(tls, elsewhere, workers, local_directory=str(tmp_path / "work")) as (_, address),
        executors.opened(address, small, NAME, tls) as executor,
    ):
        assert alike(graded(small, class_, tmp_path / "dask", executor), wanted)
        assert len(points(small, tmp_path / "dask")) == len(CLASS)


def test_jobs_carry_the_answers_and_not_where_they_lie(tls, small, class_, tmp_path, monkeypatch):
    real = class_run._run

    def gone(*arguments):
        shutil.rmtree(class_)
        return real(*arguments)

    monkeypatch.setattr(class_run, "_run", gone)
    with cluster(tls, small.root, 1) as (_, address), executors.opened(address, small, NAME, tls) as executor:
        class_run.grade_class(small, NAME, class_, tmp_path / "out", executor=executor)
    assert points(small, tmp_path / "out")["ada"]["double"] == (2.0, "passed")


def test_a_killed_worker_costs_no_mark_and_leaves_no_process(tls, small, class_, tmp_path):
    wanted = graded(small, class_, tmp_path / "local")
    mark = tmp_path / "mark-of-the-workers"
    mark.mkdir()
    killed = []
    with cluster(tls, small.root, 2, mark) as (_, address), executors.opened(address, small, NAME, tls) as executor:
        pids = executor.client.run(os.getpid)

        def kill():
            end = time.monotonic() + 60
            while not killed and time.monotonic() < end:
                busy = [worker for worker, keys in executor.client.processing().items() if keys]
                started = len([pid for each in chaos.processes(mark).values() for pid in each])
                if busy and started >= 5:  # its servers are there, and a job's own processes
                    os.kill(pids[busy[0]], signal.SIGKILL)
                    killed.append(busy[0])
                time.sleep(0.02)

        killer = threading.Thread(target=kill)
        killer.start()
        found = graded(small, class_, tmp_path / "dask", executor)
        killer.join(60)
        assert len(killed) == 1
        assert killed[0] in pids
        assert alike(found, wanted)
    end = time.monotonic() + 30
    while (left := chaos.processes(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    assert left == {}


def test_a_cluster_without_workers_is_a_fault_of_the_machine_and_not_for_ever(tls, small, class_, tmp_path):
    with cluster(tls, small.root, 1) as (made, address):
        with DaskExecutor(address.replace("dask", "tls"), dask_executor.security(tls), patience=3) as executor:
            executor.same_course(small, NAME)
            made.scale(0)
            with pytest.raises(InfrastructureError, match="no worker for 3 s"):
                class_run.grade_class(small, NAME, class_, tmp_path / "out", executor=executor)
        with pytest.raises(InfrastructureError, match="no worker came in 1 s"):
            DaskExecutor(address.replace("dask", "tls"), dask_executor.security(tls), patience=1).same_course(
                small, NAME
            )


def test_a_worker_with_another_course_is_named_and_nobody_is_graded(tls, small, class_, tmp_path):
    other = shutil.copytree(small.root, tmp_path / "other")
    checks = other / "checks" / f"test_{NAME}.py"
    checks.write_text(checks.read_text() + "\n")
    with cluster(tls, other, 1) as (_, address):
        with (
            pytest.raises(CourseError, match=r"worker tls://.*other the checks"),
            executors.opened(address, small, NAME, tls),
        ):
            pass
        executor = DaskExecutor(address.replace("dask", "tls"), dask_executor.security(tls))
        with executor, pytest.raises(CourseError, match="other the checks"):  # one that came later
            class_run.grade_class(small, NAME, class_, tmp_path / "out", executor=executor)
    assert not (tmp_path / "out").exists()


def test_a_worker_whose_course_was_changed_under_its_servers_starts_new_ones(tls, small, class_, tmp_path):
    other = shutil.copytree(small.root, tmp_path / "other")
    checks = other / "checks" / f"test_{NAME}.py"
    with cluster(tls, other, 1) as (_, address), executors.opened(address, small, NAME, tls) as executor:
        rubric = forkserver.make_rubric(small, NAME)
        class_run.try_reference(small, rubric, executor=executor)  # the servers are warm, with the old checks
        kept = checks.read_text()
        checks.write_text(kept.replace("x * 2", "x * 3"))
        changed = Course.read(other)
        with pytest.raises(CourseError, match='exercise "double": the reference is failed'):
            class_run.try_reference(changed, forkserver.make_rubric(changed, NAME), executor=executor)


def test_what_decides_a_verdict_is_compared_by_name(small, monkeypatch):
    ours = dask_worker.parts(small, NAME)
    monkeypatch.chdir(small.root)
    assert dask_worker.differs(NAME, ours) == ""
    assert ours.keys() == dask_worker.MENDS.keys()
    for name in ours:
        assert dask_worker.MENDS[name] in dask_worker.differs(NAME, ours | {name: "other"})
    assert "same course" in dask_worker.differs("91_absent", ours)


PROBE = """
import os, socket
def _reached(host, port):
    try:
        socket.create_connection((host, port), timeout=2).close()
        return "reached"
    except OSError as error:
        return "unreachable"
for _host, _port in {addresses!r}:
    print("port", _reached(_host, _port))
for _file in {files!r}:
    print("file", os.path.exists(_file))
_ports = [str(port) for _, port in {addresses!r}]
print("environment", [name for name, value in os.environ.items() if "dask" in name.lower() or value in _ports])
_open = []
for _fd in os.listdir("/proc/self/fd"):
    try:
        _open.append(os.readlink("/proc/self/fd/" + _fd))
    except OSError:
        pass
_tcp = [line for name in ("tcp", "tcp6") for line in open("/proc/self/net/" + name).read().splitlines()[1:]]
print("tcp", [line for line in _tcp if any(f"socket:[{{line.split()[9]}}]" in link for link in _open)
              and any(f":{{port:04X}}" in line for _, port in {addresses!r})])
"""


def test_a_students_code_cannot_reach_scheduler_workers_or_certificates(tls, small, hand_in, tmp_path):
    with cluster(tls, small.root, 1) as (made, address), executors.opened(address, small, NAME, tls) as executor:
        workers = [*executor.client.scheduler_info()["workers"]]
        addresses = [
            (host, int(port))
            for host, _, port in (each.split("//")[1].rpartition(":") for each in [*workers, made.scheduler_address])
        ]
        addresses += [(socket.gethostbyname(socket.gethostname()), port) for _, port in addresses]
        assert all(reached(*each) for each in addresses[:2])  # from here they can be
        files = [str(tls / name) for name in ("cert.pem", "key.pem")]
        probe = PROBE.format(addresses=addresses, files=files)
        folder = hand_in("ada", RIGHT | {"double": RIGHT["double"] + probe})
        class_run.grade_class(small, NAME, folder, tmp_path / "out", executor=executor)
    with record.Recorder(tmp_path / "out", small.chapter(NAME)) as recorder:
        verdict = recorder.verdict("ada")
    texts = [
        output["text"]
        for cell in verdict.notebook["cells"]
        for output in cell.get("outputs", ())
        if output.get("name") == "stdout"
    ]
    said = "".join("".join(text) for text in texts).split("\n")
    assert said == ["port unreachable"] * len(addresses) + ["file False"] * 2 + ["environment []", "tcp []", ""]


def reached(host, port):
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError:
        return False
    return True


def test_nobody_without_the_certificate_gets_in(tls, small, tmp_path):
    dask_executor.write_certificates(tmp_path / "others")
    with (
        cluster(tls, small.root, 1) as (_, address),
        pytest.raises(InfrastructureError, match="no certificate of ours"),
    ):
        DaskExecutor(address.replace("dask", "tls"), dask_executor.security(tmp_path / "others"))


def test_a_scheduler_without_tls_or_none_at_all_is_refused_with_the_mend(tls, monkeypatch):
    monkeypatch.setattr(dask_executor, "CONNECT", 3)
    with LocalCluster(n_workers=0, protocol="tcp://", dashboard_address=":0", processes=False) as made:
        address = made.scheduler_address.replace("tcp", "tls")
        with pytest.raises(InfrastructureError, match="start it with --protocol tls"):
            DaskExecutor(address, dask_executor.security(tls))
    with pytest.raises(InfrastructureError, match="no Dask scheduler answers"):
        DaskExecutor(address, dask_executor.security(tls))


def test_a_chapter_that_needs_a_card_does_not_wait_for_a_worker_without(tls, small):
    with (
        cluster(tls, small.root, 1) as (_, address),
        pytest.raises(InfrastructureError, match="no worker has 1 cards; start one with --resources GPU=1"),
        executors.opened(address, small, NAME, tls, gpus=1),
    ):
        pass


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
        ("dusk://here:8786", "write local, dask://HOST:PORT, slurm:FILE or kubernetes:FILE"),
        ("dask://here", "write local, dask://HOST:PORT"),
        ("dask://here:8786", "add --tls FOLDER"),
        ("slurm:absent.toml", "absent.toml: cannot be read"),
    ],
)
def test_an_engine_that_is_none_is_refused_with_the_mend(small, said, says):
    with pytest.raises(CourseError, match=says), executors.opened(said, small, NAME):
        pass


@pytest.mark.parametrize(
    ("kind", "line", "says"),
    [
        ("slurm", 'quue = "short"', "unknown key 'quue'; it knows"),
        ("slurm", "", "tls is missing; write the folder that `autograder certificates` wrote"),
        ("slurm", 'tls = "t"', "course is missing"),
        ("slurm", 'tls = "t"\ncourse = "/c"\ncores = "four"', "cores = 'four'; write a number"),
        ("slurm", 'tls = "t"\ncourse = "/c"\nwalltime = "tomorrow"', 'write it like "04:00:00"'),
        ("slurm", 'tls = "t"\ncourse = "/c\\nrm -r /"', "write a line in quotes"),
        ("slurm", 'tls = "t"\ncourse = "/c"\ndirectives = "x"', "write a list of lines"),
        ("kubernetes", 'tls = "t"', "image is missing"),
        ("kubernetes", 'tls = "t"\nimage = "i"\nmemory = "much"', 'write it like "16GiB"'),
        ("kubernetes", "tls = [", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_right_is_refused_with_its_key(tmp_path, kind, line, says):
    file = tmp_path / "cluster.toml"
    file.write_text(line)
    with pytest.raises(CourseError) as raised:
        clusters.read(kind, file)
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


def test_kubernetes_gets_a_manifest_with_tls_and_a_pod_that_can_make_a_sandbox(tls, tmp_path):
    file = tmp_path / "kubernetes.toml"
    file.write_text(f'tls = "{tls}"\nimage = "images/across:3"\nnamespace = "teaching"\nworkers = 5\ngpus = 1\n')
    text = executors.shown(f"kubernetes:{file}")
    made = yaml.safe_load(text)
    assert "no Kubernetes was there" in text.splitlines()[0]
    assert (made["apiVersion"], made["kind"]) == ("kubernetes.dask.org/v1", "DaskCluster")
    assert made["metadata"] == {"name": "across", "namespace": "teaching"}
    scheduler, worker = (made["spec"][part]["spec"] for part in ("scheduler", "worker"))
    assert made["spec"]["worker"]["replicas"] == 5
    for pod in (scheduler, worker):
        [container] = pod["containers"]
        assert container["image"] == "images/across:3"
        options = dict(pairwise(container["args"]))
        assert options["--protocol"] == "tls"
        assert options["--tls-key"] == "/etc/across-tls/key.pem"
        assert {"name": "tls", "secret": {"secretName": "across-tls", "defaultMode": 0o400}} in pod["volumes"]
        assert {"name": "tls", "mountPath": "/etc/across-tls", "readOnly": True} in container["volumeMounts"]
        assert pod["automountServiceAccountToken"] is False
        assert not any("tcp://" in argument for argument in container["args"])
    [container] = worker["containers"]
    assert container["args"][:3] == ["dask", "worker", "tls://across-scheduler.teaching.svc:8786"]
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "8Gi", "nvidia.com/gpu": "1"}
    assert container["workingDir"] == "/across"
    assert container["securityContext"]["privileged"] is True
    assert "securityContext" not in scheduler["containers"][0]
    assert made["spec"]["scheduler"]["service"]["ports"][0]["port"] == 8786
