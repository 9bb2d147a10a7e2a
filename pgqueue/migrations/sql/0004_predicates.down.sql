-- Other databases of the cluster may use the role: it has no rights, and stays.
SELECT 1;
