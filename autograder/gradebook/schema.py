"""Our own tables, beside nbgrader's in its gradebook."""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    Boolean,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    event,
)

TABLES = MetaData()
VERDICTS = Table(
    "across_verdict",
    TABLES,
    Column("chapter", String(128), primary_key=True),
    Column("student", String(255), primary_key=True),
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

LEFT = Table(  # whom this machine could not grade
    "across_left",
    TABLES,
    Column("chapter", String(128), primary_key=True),
    Column("student", String(255), primary_key=True),
    Column("why", Text, nullable=False),
)
ABSENT = Table(  # who is on the roster, and handed in nothing
    "across_absent",
    TABLES,
    Column("chapter", String(128), primary_key=True),
    Column("student", String(255), primary_key=True),
)
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
KEPT = {  # what a database does about who would change it
    "sqlite": "CREATE TRIGGER across_history_{verb} BEFORE {verb} ON across_history "
    "BEGIN SELECT RAISE(ABORT, 'across_history is only added to'); END",
    "postgresql": "CREATE RULE across_history_{verb} AS ON {verb} TO across_history DO INSTEAD NOTHING",
}
for _dialect, _rule in KEPT.items():
    for _verb in ("UPDATE", "DELETE"):
        event.listen(HISTORY, "after_create", DDL(_rule.format(verb=_verb)).execute_if(dialect=_dialect))
ATTEMPT = Table(  # which of a student's notebooks counted, of how many
    "across_attempt",
    TABLES,
    Column("chapter", String(128), primary_key=True),
    Column("student", String(255), primary_key=True),
    Column("said", String(64), nullable=False),
)
