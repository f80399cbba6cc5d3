"""Failures of distributed programs, reproduced: the processes of `across.hangs`."""
