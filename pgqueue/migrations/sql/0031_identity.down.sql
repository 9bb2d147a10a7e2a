ALTER TABLE pgqueue_export DROP CONSTRAINT pgqueue_export_database;
DROP TABLE pgqueue_identity;
