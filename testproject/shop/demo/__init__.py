"""The demo: a rush of orders, a worker killed half-way, and the books checked at the end.

tour ──▶ producers ──▶ (event log ──▶ messages) ◀── workers ──▶ mailserver, receiver, model
  ├────▶ complaint: a durable task asks the model, and the owner by mail
  └────▶ ledger: what producers, mail server and receiver saw, against what the tables say
"""

CHANNEL = "demo"
"""All messages of a demo are on it, and no others."""

SKU_PREFIX = "demo-"
"""Its products' skus begin so, and all its orders are of them."""
