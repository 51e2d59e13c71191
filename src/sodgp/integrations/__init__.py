"""Bridges to other libraries; each module needs an extra of its own and is imported only by name."""
