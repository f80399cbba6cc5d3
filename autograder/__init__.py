"""The harness that grades the course's notebooks."""

import sys

# jsonschema, which nbformat imports, compiles a grammar of internationalized URLs where it finds this package: a second of
# every process, for a format that no notebook's schema asks for. It does without.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
