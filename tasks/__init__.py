"""Thin Prefect tasks, and the plain functions that they call."""
