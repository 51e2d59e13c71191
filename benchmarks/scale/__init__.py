"""Growth with the number of rows: ``python -m benchmarks.scale``, see `benchmarks.scale.__main__`."""
