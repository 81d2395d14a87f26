"""`python -m botwired` is the botwired binary of this environment."""

from botwired._binary import run

run()
