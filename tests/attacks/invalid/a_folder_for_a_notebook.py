"""Hands in a folder with the notebook's name, a thousand files and a link to itself in it."""

EXERCISE = "where"


def submission(release, solved):
    def write(path):
        path.mkdir()
        for number in range(1000):
            (path / f"{number}.ipynb").touch()
        (path / "again").symlink_to(path)

    return write
