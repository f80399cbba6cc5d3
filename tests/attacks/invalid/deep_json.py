"""Hands in JSON that is nested a million deep."""

EXERCISE = "where"


def submission(release, solved):
    return b'{"cells": ' + b"[" * 1_000_000
