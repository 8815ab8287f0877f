"""gRPC servers of four languages, as backends: each takes any unary call and says what has come.

Each prints its port, then a line in hex for each message, and answers with the message that its argument says in hex.
"""
