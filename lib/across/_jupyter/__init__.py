"""Machinery: JupyterLab and headless runs."""
