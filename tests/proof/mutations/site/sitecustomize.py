"""Python imports this at its start, where the folder is in PYTHONPATH."""

import os

from tests.proof.mutations import plant

plant(os.environ["PROOF_MUTATION"])
