"""A model that only plays a script, behind a real HTTP server on loopback, for programs that bring their own client."""
