"""Windows: one operator, made of assigner, trigger, evictor and contents."""
