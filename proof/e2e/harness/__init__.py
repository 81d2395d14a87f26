"""The parts of make e2e: the clients, the servers between which they stand, and the books."""
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent.parent
HERE = ROOT / "proof" / "e2e"
BINARY = ROOT / "bin" / "botwired"
TAP = ROOT / "bin" / "tap"
EXAMPLES = ROOT / "examples"
SEALED = bool(os.environ.get("SEALED"))  # the daemon seals all namespaces
KEPT = ROOT / ".e2e"  # logs and databases of failed cases
