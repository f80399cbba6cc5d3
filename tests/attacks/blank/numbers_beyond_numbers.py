"""Writes NaN, infinity and numbers of ten thousand digits wherever a number may be."""

from corpus import dumps

EXERCISE = "where"


def submission(release, solved):
    text = dumps(release).decode()
    text = text.replace('"execution_count": null', f'"execution_count": {"9" * 10_000}')
    text = text.replace('"points": ', '"points": NaN, "points": -Infinity, "points": 1e99999, "more": ')
    return text.replace('"nbformat": 4', '"nbformat": 4.0').encode()
