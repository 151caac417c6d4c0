"""One conversation: asyncio stages joined by channels with limits."""
