DROP TABLE pgqueue_event;
