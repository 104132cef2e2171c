"""Documents of a job, as REST shows them: pure functions of facts, in exactly Flink's shapes.

All fields are always there: Flink's own client retries in silence when one is missing. What we add
has a name that Flink does not use.
"""
