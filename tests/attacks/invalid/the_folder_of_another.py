"""Makes its folder a link to the folder of a student who has full marks."""

EXERCISE = "where"


def submission(release, solved):
    def write(path):
        path.parent.rmdir()
        path.parent.symlink_to("../aa_honest/" + path.parent.name)

    return write
