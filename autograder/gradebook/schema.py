"""Our own tables, beside nbgrader's in its gradebook."""

from __future__ import annotations

from typing import Any

from sqlalchemy import DDL, Boolean, Column, Float, Integer, LargeBinary, MetaData, String, Table, Text, event

TABLES = MetaData()


def of_each(name: str, *columns: Column[Any]) -> Table:
    """A table with one row for each student of a chapter."""
    chapter = Column("chapter", String(128), primary_key=True)
    return Table(name, TABLES, chapter, Column("student", String(255), primary_key=True), *columns)


VERDICTS = of_each(
    "across_verdict",
    Column("digest", String(64), nullable=False),
    Column("timestamp", Text),  # as it was handed in
    Column("due", Text),  # what the late policy was applied to
    Column("verdict", Text, nullable=False),  # JSON in ASCII: any character of a message survives
    Column("notebook", LargeBinary, nullable=False),  # JSON in ASCII, deflated
)

SECRETS = Table(
    "across_secret",
    TABLES,
    Column("name", String(32), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

LEFT = of_each("across_left", Column("why", Text, nullable=False))  # whom this machine could not grade
ABSENT = of_each("across_absent")  # who is on the roster, and handed in nothing
HISTORY = Table(  # of every mark: see `history`, which alone writes it
    "across_history",
    TABLES,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("chapter", String(128), nullable=False, index=True),
    Column("student", String(255), nullable=False, index=True),
    Column("exercise", String(255), nullable=False),
    Column("moment", String(32), nullable=False),  # UTC, ISO 8601
    Column("who", Text, nullable=False),
    Column("by_hand", Boolean, nullable=False),  # what stands now
    Column("points_was", Float),  # none before
    Column("was", String(32), nullable=False),  # how the exercise had ended; empty: none before
    Column("points_now", Float, nullable=False),
    Column("now", String(32), nullable=False),
    Column("digest", String(64), nullable=False),  # of the verdict that stands now, perhaps below a mark by hand
)
EVIDENCE = Table(  # every verdict that was ever recorded: see `evidence`, which alone writes it
    "across_evidence",
    TABLES,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("chapter", String(128), nullable=False, index=True),
    Column("student", String(255), nullable=False, index=True),
    Column("moment", String(32), nullable=False),  # UTC, ISO 8601
    Column("digest", String(64), nullable=False),
    Column("timestamp", Text),  # as it was handed in
    Column("verdict", LargeBinary, nullable=False),  # JSON in ASCII, deflated; without its notebook
    Column("answers", LargeBinary, nullable=False),  # the submission, as far as it counts, likewise; empty: not kept
    Column("basis", String(64), nullable=False),  # what it rests on: the list of files in OUT/evidence; empty: not kept
)
ADDED_TO = (HISTORY, EVIDENCE)  # and never changed
KEPT = {  # what a database does about who would change one
    "sqlite": "CREATE TRIGGER {name}_{verb} BEFORE {verb} ON {name} "
    "BEGIN SELECT RAISE(ABORT, '{name} is only added to'); END",
    "postgresql": "CREATE RULE {name}_{verb} AS ON {verb} TO {name} DO INSTEAD NOTHING",
}
for _table in ADDED_TO:
    for _dialect, _rule in KEPT.items():
        for _verb in ("UPDATE", "DELETE"):
            rule = DDL(_rule.format(name=_table.name, verb=_verb)).execute_if(dialect=_dialect)
            event.listen(_table, "after_create", rule)
# which of a student's notebooks counted, of how many
ATTEMPT = of_each("across_attempt", Column("said", String(64), nullable=False))
