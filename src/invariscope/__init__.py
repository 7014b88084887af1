"""invariscope."""
