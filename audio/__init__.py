"""What sound is: formats, frames, resampling, recordings. numpy only; no torch, no asyncio, no network."""
