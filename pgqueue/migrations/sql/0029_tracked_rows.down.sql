-- The functions stay: the triggers of tracked tables call them until 0007 is undone, too.
SELECT;
