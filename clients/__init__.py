"""The users: all of them speak the Realtime protocol to a server, embedded or remote."""
