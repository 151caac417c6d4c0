"""``echoic bench machine``: every figure held against what this machine could do at best."""
