"""Leaves a key in its user's keyring, which no namespace holds, for the next student to find."""

from syscalls import trying

EXERCISE = "where"
submission = trying(
    """
USER, SESSION = -4, -3
for ring in (USER, SESSION):
    got("a key", call((248, 217), b"user", b"across", b"the answers", 11, ring))  # add_key
    got("a found key", call((249, 218), b"user", b"across", 0, ring))  # request_key
    got("a keyring", call((250, 219), 0, ring, 1))  # keyctl: KEYCTL_GET_KEYRING_ID, create it
got("a session of its own", call((250, 219), 1, b"across"))  # KEYCTL_JOIN_SESSION_KEYRING
"""
)
