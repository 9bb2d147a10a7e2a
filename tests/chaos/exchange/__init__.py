"""An app whose events go to a broker, and whose messages come from one: `CHAOS_APPS` names it."""
