"""Nodes that the API appends, and their compilation into a job graph of stages."""
