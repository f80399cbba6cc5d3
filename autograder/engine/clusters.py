"""Workers that somebody else's scheduler starts: what a file says of Slurm or Kubernetes, and what is sent to it.

Neither was there where this was written: what is sent is tested as text, and nothing here has been run against one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from autograder.model.course import CourseError
from autograder.store import settings

if TYPE_CHECKING:
    from distributed.security import Security

UNRUN = "Nothing was sent. This is checked as text only: no {} was there where it was written."
SECRET = "/etc/across-tls"  # where a pod finds the certificate
PORT = 8786


ONE_LINE = r"\A[^\n]+\Z"
Text = Annotated[str, Meta(pattern=ONE_LINE, description="a line in quotes")]
Lines = Annotated[list[Text], Meta(description='a list of lines in quotes: ["--exclusive"]')]
Count = Annotated[int, Meta(ge=1, description="a number of at least 1")]
Cards = Annotated[int, Meta(ge=0, description="a number of at least 0")]
Seconds = Annotated[float, Meta(ge=1, description="a number of seconds, at least 1")]
Size = Annotated[str, Meta(pattern=r"(?i)\A\d+(\.\d+)?\s?[KMGT]i?B?\Z", description='it like "16GiB"')]
Time = Annotated[str, Meta(pattern=r"\A(\d+-)?\d{1,3}:\d\d:\d\d\Z", description='it like "04:00:00"')]
Tls = Annotated[Text, Meta(description='the folder that `autograder certificates` wrote: tls = "/shared/across-tls"')]
Course = Annotated[Text, Meta(description='the course on the nodes: course = "/shared/across"')]
Image = Annotated[Text, Meta(description='an image that holds the course: image = "registry/across:3"')]


class Cluster(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What both kinds of file say. A worker grades as many submissions at once as it has cores."""

    tls: Tls
    workers: Count = 2
    cores: Count = 2  # of each worker
    memory: Size = (
        "8GiB"  # of each worker: 1.5 GiB for the warm servers, and what the chapter's limits let students have
    )
    gpus: Cards = 0  # of each worker
    patience: Seconds = 600.0  # seconds to wait for a worker: the queue may be long

    @property
    def security(self) -> Security:
        """TLS for every role. Raises CourseError."""
        from autograder.engine import dask_executor

        return dask_executor.security(Path(self.tls))

    def _worker(self) -> list[str]:
        """What a worker's command line says besides its scheduler and its certificate."""
        # Dask's memory limit would look at the worker's own process only; the students' have limits of their own
        said = ["--nthreads", str(self.cores), "--memory-limit", "0", "--preload", "autograder.engine.dask_worker"]
        return said + (["--resources", f"GPU={self.gpus}"] if self.gpus else [])


class Slurm(Cluster, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Each worker is a job of Slurm, submitted by dask-jobqueue. The scheduler runs in our process."""

    course: Course
    python: Text = ""  # on the nodes; empty: .venv/bin/python of the course
    queue: Text = ""
    account: Text = ""
    walltime: Time = "04:00:00"
    interface: Text = ""  # of the network: ib0
    directives: Lines = []  # further ones for sbatch: "--exclusive"

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


class Kubernetes(Cluster, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Each worker is a pod of a DaskCluster, a resource of Dask's operator, which must be installed."""

    image: Image
    name: Text = "across"
    namespace: Text = "default"
    course: Text = "/across"  # in the image
    tls_secret: Text = "across-tls"  # a secret with the two files of `tls`

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
    return settings.read(path, Slurm if kind == "slurm" else Kubernetes, CourseError)
