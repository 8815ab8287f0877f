"""What exporters share, one link each: the sending queue, retry, the time limit of an attempt."""
