"""The scikit-learn estimators: the only room that knows original units.

Imports `tables` and below; evaluation, plots, reports, integrations and the command line may import it.
"""
