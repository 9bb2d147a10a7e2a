"""The tables of the queue as Arrow: read as a whole, by partitions, or followed.

`pgqueue.spark` and `pgqueue.lake` read the queue by this room. It imports neither Django nor Spark.
"""
