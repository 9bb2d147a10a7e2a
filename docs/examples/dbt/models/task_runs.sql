-- The runs of each task by day: their outcomes, and the median wait and run time in seconds.
SELECT day, channel, task, outcome, count(*) AS messages,
       median(epoch(started_at - run_at)) AS wait_s, median(epoch(finished_at - started_at)) AS run_s
FROM {{ source('pgqueue', 'history') }}
GROUP BY ALL
