"""Hands in bytes that are no UTF-8: overlong, surrogates, UTF-16 and Latin-1 in one file."""

from corpus import dumps

EXERCISE = "where"


def submission(release, solved):
    text = dumps(solved)
    broken = b"\xc0\xaf \xed\xa0\x80 \xf8\x88\x80\x80\x80 caf\xe9 \xff\xfe"
    return text.replace(b'"source": "', b'"source": "' + broken, 1)
