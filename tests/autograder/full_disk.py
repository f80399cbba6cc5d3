"""Run by test_full_disk.py in a mount namespace of its own: records a class on disks of many sizes, each too small.

python full_disk.py FOLDER: prints one line for each error met; fails where something is not told, or is lost.
"""

import subprocess
import sys
from pathlib import Path

import chaos
from classroom import FAILED, chapter, verdict

from autograder.gradebook.record import Recorder
from autograder.report import outputs
from autograder.store import files

TINY = chapter()
CLASS = [verdict("ada"), verdict("bob", FAILED), verdict("cem")]
KEY = b"k" * 32
ENOUGH = 8 << 10  # KiB
SIZES = (4, 60, 150, 264, 276, 288, 300)  # KiB: full at the first file, in the database, in files and pages


def mount(out: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(out)], check=True, timeout=30)


def work(out: Path) -> None:
    """What `autograder grade` writes, and goes on with."""
    with files.only_writer(out):
        if not (out / ".seed").exists():
            files.replace(out / ".seed", KEY, 0o600)
        with Recorder(out, TINY) as recorder:
            for each in CLASS:
                if recorder.known(each.student) != each.digest:
                    recorder.write(each)
        outputs.write(out, TINY, workers=1)


def fails(out: Path) -> str:
    try:
        work(out)
    except OSError as error:
        said = files.says(error)
        assert str(out) in said, said
        assert files.AGAIN in said, said
        assert "\n" not in said, said
        return said
    return ""


def main(folder: Path) -> None:
    calm = folder / "calm"
    work(calm)
    wanted = chaos.meaning(calm)
    for size in SIZES:
        out = folder / f"out{size}"
        out.mkdir()
        mount(out, f"size={size}k")
        if said := fails(out):
            print(f"{size} KiB: {said}")
        mount(out, f"remount,size={ENOUGH}k")
        work(out)
        assert chaos.meaning(out) == wanted, f"{size} KiB: something was lost"
    mount(out, f"remount,ro,size={ENOUGH}k")
    said = fails(out)
    assert "Read-only file system" in said, said
    print(f"read-only: {said}")
    arguments = ["grade", "03", "--submissions", str(folder), "--out", str(out)]
    ran = subprocess.run(
        [sys.executable, "-m", "autograder", *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ran.returncode, ran.stderr.count("\n"), ran.stdout) == (1, 1, ""), (ran.returncode, ran.stderr)
    print(f"command: {ran.stderr}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
