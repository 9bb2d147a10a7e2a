DROP TABLE pgqueue_history;
