"""Parts of the benchmark ``assign_add.py``, each read by itself."""
