"""Every command on docs/student.md is run, in a copy of the course, with a deadline."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from serving import free_port, serving

from across import scripts

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "student.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "docs" / "zh" / "student.md").read_text(encoding="utf-8")
PROGRAMS = ("uv", "pip", "git", "across", "jupyter", "python")
SECONDS = 300.0
CARDS = "--extra gpu"  # 3 GB to install, and of use only where there is an NVIDIA GPU


def commands(page: str) -> list[str]:
    """What the page tells its reader to type: lines of fenced shell, and code in prose that begins with a program."""
    fenced = [
        line
        for block in re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    prose = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    inline = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
    found = [*fenced, *(code for code in inline if code.split(" ")[0] in PROGRAMS)]
    return list(dict.fromkeys(line for line in found if line.strip() and not line.startswith("#")))


def test_the_commands_are_found_in_fences_and_in_prose():
    page = "Type `uv run a\nb`, not `a.py`.\n\n```bash\n# why\npip install uv && uv run c\n```\n"
    assert commands(page) == ["pip install uv && uv run c", "uv run a b"]
    assert len(commands(PAGE)) >= 8


def test_the_chinese_page_has_the_commands_of_the_english_one_and_its_headings_and_tables():
    ours, theirs = (
        (
            [re.split(r" +# ", command)[0].rstrip() for command in commands(page)],  # a comment behind it is translated
            re.findall(r"^#+(?= )|^\|(?=.)|^- ", page, re.MULTILINE),
        )
        for page in (PAGE, CHINESE)
    )
    assert theirs == ours


def test_the_links_of_the_chinese_page_lead_somewhere():
    headings = [re.sub(r"\W+", "-", heading.lower()) for heading in re.findall(r"^#+ (.+)$", CHINESE, re.MULTILINE)]
    links = re.findall(r"\]\(([^)]+)\)", CHINESE)
    assert len(links) > 4
    for link in links:
        path, _, anchor = link.partition("#")
        assert "://" in link or (ROOT / "docs" / "zh" / path).exists() if path else anchor in headings, link


@pytest.mark.parametrize(("page", "title"), [(PAGE, "Hand in"), (CHINESE, "提交")])
def test_what_is_handed_in_and_when_it_is_complete_stands_under_its_own_heading(page: str, title: str):
    section = re.search(rf"^## {title}\n(.*?)^## ", page, re.MULTILINE | re.DOTALL)
    assert section, title
    notebooks = re.findall(r"`(notebooks/\S+)`", section[1])
    assert [(ROOT / each).is_file() for each in notebooks] == [True]
    script = (ROOT / "lib/across/_jupyter/share/labextensions/across/exercises.js").read_text(encoding="utf-8")
    marks = dict(re.findall(r'"?(\w[\w ]*)"?: "(.)"', re.search(r"const MARKS = \{(.*)\}", script)[1]))
    for state in ("new", "begun", "waits", "not yet", "by hand"):
        assert f"`{marks[state]}`" in section[1], state


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The course as a student has it: a git checkout of its own. Each command leaves it as it was handed out."""
    course = tmp_path_factory.mktemp("student") / "course"
    for name in ("notebooks", "lib", "autograder", "pyproject.toml", "uv.lock", "README.md", "course.toml"):
        place = ROOT / name
        if place.is_dir():
            shutil.copytree(place, course / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            course.mkdir(exist_ok=True)
            shutil.copy(place, course / name)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "as handed out"]):
        subprocess.run([*git, *arguments], cwd=course, check=True, timeout=60)
    return course


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of this test run, which `uv run` uses as it is: nothing is installed, no browser opens."""
    found = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "ACROSS_COURSE")}
    return {
        **found,
        "UV_PROJECT_ENVIRONMENT": sys.prefix,
        "UV_NO_SYNC": "1",
        "UV_OFFLINE": "1",
        "HOME": str(tmp_path),
        "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv")),
        "BROWSER": "true",
        "PYTHONUSERBASE": os.environ.get("PYTHONUSERBASE", str(Path.home() / ".local")),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }


def nightly(command: str) -> bool:
    """Whether it starts what another command of the page has started already, with an option that has tests of its own."""
    return command.startswith(("uv run across lab --", "uv run across run 01 --lang"))


@pytest.mark.whole
@pytest.mark.parametrize(
    "command", [pytest.param(each, marks=[pytest.mark.slow] if nightly(each) else []) for each in commands(PAGE)]
)
def test_a_command_of_the_page_does_what_the_page_says(command: str, copy: Path, env: dict[str, str]):
    if not shutil.which("uv"):
        pytest.skip("no uv here: pip install uv")
    if CARDS in command and command.startswith("uv sync"):
        assert {"gpu"} == extras(command)  # that it is one of those that the lock knows, is asked of uv
        command = command.replace("uv sync", "uv export --frozen --no-emit-workspace --quiet -o gpu.txt")
    if "across prepare" in command and not scripts.folder(ROOT / "notebooks" / "estimator.py").is_dir():
        pytest.skip(f"what it installs, 1.2 GB, is not here, and this runs without a network: {command}")
    notebook = copy / "notebooks" / "03_device_placement.ipynb"
    as_handed_out = notebook.read_bytes()
    if command.startswith(("git checkout", "uv run across reset")):
        notebook.write_text("{}", encoding="utf-8")
    command = here(once(command))
    if "across lab" in command:
        with serving(command, copy, env, copy.parent / "log") as url, urllib.request.urlopen(url, timeout=60) as page:
            assert page.status == 200
    elif "doctor --cluster" in command:
        of_a_job(command, copy, env)
    else:
        ended = subprocess.run(
            command, shell=True, cwd=copy, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        blank = command.startswith("uv run across run")  # exit code 1: of a blank chapter not every check passes
        assert ended.returncode == (1 if blank else 0), ended.stdout[-1000:] + ended.stderr[-3000:]
        assert not blank or ("尚未作答" if "--lang zh" in command else "not attempted") in ended.stdout
    assert notebook.read_bytes() == as_handed_out


def of_a_job(command: str, copy: Path, env: dict[str, str]) -> None:
    """Run it on both machines of a job of two: it finds that no program started."""
    workers = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    (copy / "FOLDER").mkdir(exist_ok=True)
    (copy / "FOLDER" / "worker-0.log").write_text("worker:0 starts\n", encoding="utf-8")
    started = [
        subprocess.Popen(
            command,
            shell=True,
            cwd=copy,
            env=env
            | {"TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for index in range(2)
    ]
    try:
        said = [process.communicate(timeout=SECONDS)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait(timeout=60)
    assert [process.returncode for process in started] == [1, 1], said
    assert all("worker:1" in text for text in said), said


def once(command: str) -> str:
    """The command; if the page has JupyterLab started so before, with the version in its place: that is all that it adds."""
    if "across lab" not in command:
        return command
    page, lab = commands(PAGE), command[command.find("across lab") :]
    again = any(each.endswith(lab) for each in page[: page.index(command)])
    return command.replace(lab, "across --version") if again else command


def extras(command: str) -> set[str]:
    words = shlex.split(command)
    return {words[number + 1] for number, word in enumerate(words) if word == "--extra"}


def here(command: str) -> str:
    """The command with what cannot be had twice on a machine: this environment's Python, a port that is free, uv as it is."""
    command = re.sub(r"--python \S+", f"--python {sys.version_info.major}.{sys.version_info.minor}", command)
    if found := re.search(r"--port (\d+)", command):
        with socket.socket() as probe:
            taken = probe.connect_ex(("127.0.0.1", int(found[1]))) == 0
            if not taken:
                return command
        return command.replace(found[0], f"--port {free_port()}")
    return command.replace(
        "pip install uv", f"{shlex.quote(sys.executable)} -c 'import shutil, sys; sys.exit(not shutil.which(\"uv\"))'"
    )
