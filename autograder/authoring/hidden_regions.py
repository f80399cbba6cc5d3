"""Regions that nbgrader clears from a release and `build` does not: in a source they would be published."""

from __future__ import annotations

# nbgrader's own marks, found anywhere in a line as its ClearHiddenTests and ClearMarkScheme do -> where that belongs here
REGIONS = {
    "HIDDEN TESTS": "a hidden test is a trusted check: move it to {checks}, which no student gets",
    "MARK SCHEME": "a marking scheme stays with the author: move it out of the source",
}


def slips(source: str, checks: str) -> list[str]:
    """What of a cell's source nbgrader would have cleared, a line each; `checks` is the chapter's check file."""
    return [
        f"`{edge} {region}`: students would see it, for nothing is cleared but solutions; {mend.format(checks=checks)}"
        for region, mend in REGIONS.items()
        for edge in ("BEGIN", "END")
        if f"{edge} {region}" in source
    ]
