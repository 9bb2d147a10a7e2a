"""Options that users declare: filters, retries, retention, schedules, policies, webhooks."""
