"""The command line: ``main.py`` chooses, and one file a command does the work, imported when it is chosen."""

__all__: list[str] = []
