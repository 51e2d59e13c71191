"""What each option does for accuracy, chosen on validation rows; and the efforts, scored on the test rows."""
