"""Many goals at once: a batch runs each of them in a copy, several at a time, with one
budget. Several runs of one goal are a batch as well.

`plan` is what was submitted, `batch_folder` holds it on disk, `history` is what has
happened since, `scheduler` starts the runs, and `worker` is the process of one.
"""
