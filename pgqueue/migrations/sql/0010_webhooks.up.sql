-- Django's own constraint would keep the dispatch from deleting a subscription that has expired.
ALTER TABLE pgqueue_webhook ADD CONSTRAINT pgqueue_webhook_subscription
    FOREIGN KEY (subscription_id) REFERENCES pgqueue_subscription (name) ON DELETE CASCADE;
