"""How accurate a fit is after 3, 10, 30, 100 and 300 CPU seconds, ours and what one would use instead."""
