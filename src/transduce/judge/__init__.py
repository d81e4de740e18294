"""How good translations are: two systems compared, one broken down, and a report of it all."""
