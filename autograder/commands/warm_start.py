"""A keeper begins here, with the digest of the code, so that it knows of what was edited while it imported.

python -P -m autograder.commands.warm_start LOG READY [ARGUMENT ...]      # started by `warm_client`
"""

from __future__ import annotations

import sys

from autograder.commands import warm_code

if __name__ == "__main__":
    _path = list(sys.path)  # an import may lengthen it
    _code = warm_code.digest(_path)
    from autograder.commands import warm_keeper

    warm_keeper.main(_path, _code)
