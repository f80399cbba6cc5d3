"""Our page as nbgrader's feedback: what its `generate_feedback`, and the formgrader's button of that name, make in OUT.

OUT/nbgrader_config.py names it as `GenerateFeedback.exporter_class`. nbgrader lays the page where ours lies already, and
`release_feedback` takes it from there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbconvert.exporters import Exporter
from traitlets import default

from autograder.gradebook import released
from autograder.report import outputs


class FeedbackPage(Exporter):
    """In place of nbconvert's HTML of a student's notebook: the page of what is recorded now, marks by hand included."""

    @default("file_extension")
    def _file_extension_default(self) -> str:
        return ".html"

    def from_filename(self, filename: str, resources: Any = None, **kw: Any) -> tuple[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the page of whom nbgrader asks for. Raises LookupError for a chapter, or a student, that is not ours."""
        converter: Any = self.parent
        asked, coursedir = resources["nbgrader"], converter.coursedir
        out = Path(coursedir.root)
        chapter = released.chapter(out, asked["assignment"], coursedir.course_id)
        if chapter is None:
            raise LookupError(
                f"{out}/release: there is no chapter {asked['assignment']} of ours; run `autograder grade`"
            )
        page = outputs.write_page(out, chapter, asked["student"]).read_text(encoding="utf-8")
        return page, {**resources, "output_extension": self.file_extension}
