"""p(y | f): the noise of the observations in all its forms.

Imports `layers` and below; models own one likelihood each.
"""
