"""Makes the state of a job durable and finds it again. Knows handles, never what they point to."""
