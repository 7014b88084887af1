"""The report of a run: an offline HTML page and a summary in the terminal, made from the run's folder alone."""

from invariscope.report.page import build_report
from invariscope.report.terminal import print_summary

__all__ = ["build_report", "print_summary"]
