"""The doors: the Realtime endpoint and the speech socket."""
