"""Workers that somebody else's scheduler starts: what a file says of Slurm or Kubernetes, and what is sent to it.

Neither was there where this was written: what is sent is tested as text, and nothing here has been run against one.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.model.course import CourseError

if TYPE_CHECKING:
    from distributed.security import Security

UNRUN = "Nothing was sent. This is checked as text only: no {} was there where it was written."
SIZE = re.compile(r"\d+(\.\d+)?\s?[KMGT]i?B?", re.IGNORECASE)
SECRET = "/etc/across-tls"  # where a pod finds the certificate
PORT = 8786


@dataclass(frozen=True)
class Cluster:
    """What both kinds of file say. A worker grades as many submissions at once as it has cores."""

    tls: Path = field(metadata={"says": 'the folder that `autograder certificates` wrote: tls = "/shared/across-tls"'})
    workers: int = 2
    cores: int = 2  # of each worker
    memory: str = (
        "8GiB"  # of each worker: 1.5 GiB for the warm servers, and what the chapter's limits let students have
    )
    gpus: int = 0  # of each worker
    patience: float = 600.0  # seconds to wait for a worker: the queue may be long

    @property
    def security(self) -> Security:
        """TLS for every role. Raises CourseError."""
        from autograder.engine import dask_executor

        return dask_executor.security(self.tls)

    def _worker(self) -> list[str]:
        """What a worker's command line says besides its scheduler and its certificate."""
        # Dask's memory limit would look at the worker's own process only; the students' have limits of their own
        said = ["--nthreads", str(self.cores), "--memory-limit", "0", "--preload", "autograder.engine.dask_worker"]
        return said + (["--resources", f"GPU={self.gpus}"] if self.gpus else [])


@dataclass(frozen=True)
class Slurm(Cluster):
    """Each worker is a job of Slurm, submitted by dask-jobqueue. The scheduler runs in our process."""

    course: str = field(kw_only=True, metadata={"says": 'the course on the nodes: course = "/shared/across"'})
    python: str = ""  # on the nodes; empty: .venv/bin/python of the course
    queue: str = ""
    account: str = ""
    walltime: str = "04:00:00"
    interface: str = ""  # of the network: ib0
    directives: list[str] = field(default_factory=list)  # further ones for sbatch: "--exclusive"

    def options(self) -> dict[str, Any]:
        """What dask-jobqueue is given."""
        directives = [*self.directives, *([f"--gres=gpu:{self.gpus}"] if self.gpus else [])]
        return {
            "cores": self.cores,
            "processes": 1,
            "memory": self.memory,
            "queue": self.queue or None,
            "account": self.account or None,
            "walltime": self.walltime,
            "interface": self.interface or None,
            "python": self.python or f"{self.course.rstrip('/')}/.venv/bin/python",
            "job_name": "across-worker",
            "job_extra_directives": directives,
            "job_script_prologue": [f"cd {shlex.quote(self.course)}"],  # a worker's course is that of its folder
            "worker_extra_args": self._worker()[2:],  # it says --nthreads itself
            "death_timeout": 120,
            "protocol": "tls://",
            "security": self.security,
        }

    def text(self) -> str:
        """The job script of one worker; sbatch gets it once for each of `workers`."""
        from dask_jobqueue.slurm import SLURMJob

        return SLURMJob(f"tls://SCHEDULER:{PORT}", name="across", **self.options()).job_script()

    @contextmanager
    def cluster(self) -> Iterator[Any]:
        """Have the jobs submitted, for the time of the block."""
        from dask_jobqueue.slurm import SLURMCluster

        with SLURMCluster(
            n_workers=self.workers, scheduler_options={"dashboard_address": "127.0.0.1:0"}, **self.options()
        ) as made:
            yield made


@dataclass(frozen=True)
class Kubernetes(Cluster):
    """Each worker is a pod of a DaskCluster, a resource of Dask's operator, which must be installed."""

    image: str = field(kw_only=True, metadata={"says": 'an image that holds the course: image = "registry/across:3"'})
    name: str = "across"
    namespace: str = "default"
    course: str = "/across"  # in the image
    tls_secret: str = "across-tls"  # a secret with the two files of `tls`

    def manifest(self) -> dict[str, Any]:
        """The DaskCluster: dask-kubernetes' own, with TLS in place of TCP and what a sandbox needs of a pod."""
        from dask_kubernetes.operator import make_cluster_spec

        files = [
            "--tls-ca-file",
            f"{SECRET}/cert.pem",
            "--tls-cert",
            f"{SECRET}/cert.pem",
            "--tls-key",
            f"{SECRET}/key.pem",
        ]
        address = f"tls://{self.name}-scheduler.{self.namespace}.svc:{PORT}"
        memory = re.sub(r"\s|B$", "", self.memory)
        size = {"cpu": str(self.cores), "memory": memory} | ({"nvidia.com/gpu": str(self.gpus)} if self.gpus else {})
        made: dict[str, Any] = make_cluster_spec(
            name=self.name,
            image=self.image,
            n_workers=self.workers,
            resources={"requests": size, "limits": {**size}},
            worker_command=["dask", "worker", address, "--protocol", "tls", *self._worker(), *files],  # type: ignore[arg-type]
        )
        made["metadata"]["namespace"] = self.namespace
        spec = made["spec"]
        [scheduler] = spec["scheduler"]["spec"]["containers"]
        [worker] = spec["worker"]["spec"]["containers"]
        worker["workingDir"] = self.course
        scheduler["args"] = ["dask", "scheduler", "--protocol", "tls", "--port", str(PORT), *files]
        scheduler["resources"] = {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}
        # bubblewrap makes namespaces and mounts /proc in them, which the runtime's profile and masked paths refuse
        worker["securityContext"] = {"privileged": True, "runAsUser": 0}
        worker["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]
        worker.pop("ports")  # the workers' own dashboards
        for part in (spec["scheduler"]["spec"], spec["worker"]["spec"]):
            part["volumes"] = [{"name": "tls", "secret": {"secretName": self.tls_secret, "defaultMode": 0o400}}]
            part["containers"][0].setdefault("volumeMounts", []).append(
                {"name": "tls", "mountPath": SECRET, "readOnly": True}
            )
            part["automountServiceAccountToken"] = False  # nothing in it asks Kubernetes for anything
        spec["worker"]["spec"]["volumes"].append({"name": "shm", "emptyDir": {"medium": "Memory"}})
        return made

    def text(self) -> str:
        """The manifest as YAML."""
        import yaml

        return yaml.safe_dump(self.manifest(), sort_keys=False)

    @contextmanager
    def cluster(self) -> Iterator[str]:
        """Have the pods made, for the time of the block. Yields the scheduler's address at this end of a forwarded port."""
        # dask-kubernetes' own KubeCluster speaks plain TCP
        from kr8s.objects import Service, new_class

        kind = new_class("DaskCluster", "kubernetes.dask.org/v1", asyncio=False)
        made = kind(self.manifest(), namespace=self.namespace)
        made.create()
        try:
            made.wait("jsonpath='{.status.phase}'=Running", timeout=int(self.patience))
            service = Service.get(f"{self.name}-scheduler", namespace=self.namespace, timeout=int(self.patience))
            with service.portforward(remote_port=PORT, local_port="auto") as port:
                yield f"tls://127.0.0.1:{port}"
        finally:
            made.delete()


def read(kind: str, path: Path) -> Slurm | Kubernetes:
    """What a file says. Raises CourseError, which names the file, the key and the mend."""
    wanted = Slurm if kind == "slurm" else Kubernetes
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CourseError(f"{path}: cannot be read: {error}") from None
    known = {each.name: each for each in fields(wanted)}
    if unknown := sorted(said.keys() - known):
        raise CourseError(f"{path}: unknown key {unknown[0]!r}; it knows {', '.join(known)}")
    for name, each in known.items():
        if name not in said:
            if each.default is MISSING and each.default_factory is MISSING:
                raise CourseError(f"{path}: {name} is missing; write {each.metadata['says']}")
            continue
        said[name] = _value(f"{path}: {name} = {said[name]!r}", name, str(each.type), said[name])
    return wanted(**said)


def _value(where: str, name: str, kind: str, said: Any) -> Any:
    if kind in ("int", "float"):
        least = 0 if name == "gpus" else 1
        if isinstance(said, bool) or not isinstance(said, int if kind == "int" else int | float) or said < least:
            raise CourseError(f"{where}; write a number of at least {least}")
        return said
    if kind == "list[str]":
        if not isinstance(said, list) or not all(isinstance(each, str) and "\n" not in each for each in said):
            raise CourseError(f"{where}; write a list of lines in quotes")
        return said
    if not isinstance(said, str) or "\n" in said or not said:
        raise CourseError(f"{where}; write a line in quotes")
    if name == "memory" and not SIZE.fullmatch(said):
        raise CourseError(f'{where}; write it like "16GiB"')
    if name == "walltime" and not re.fullmatch(r"(\d+-)?\d{1,3}:\d\d:\d\d", said):
        raise CourseError(f'{where}; write it like "04:00:00"')
    return Path(said) if kind == "Path" else said
