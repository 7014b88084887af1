"""Experiments: a paper's study as a run that ends in claims with verdicts."""

from invariscope.experiments.registry import EXPERIMENTS, Experiment, ExperimentEntry, find_experiment, load_experiment

__all__ = ["EXPERIMENTS", "Experiment", "ExperimentEntry", "find_experiment", "load_experiment"]
