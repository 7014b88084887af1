"""Jobs on engines: a named function mapped over JSON arguments, here or in processes, with the same numbers."""

from invariscope.parallel.jobs import ENGINES, map_jobs, resolve_engine
from invariscope.parallel.progress import track
from invariscope.parallel.threads import one_thread

__all__ = ["ENGINES", "map_jobs", "one_thread", "resolve_engine", "track"]
