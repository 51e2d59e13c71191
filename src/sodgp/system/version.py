"""The version of the library, for the rooms that may not import the package as a whole."""

__all__ = ["VERSION"]

VERSION = "0.2.0"
