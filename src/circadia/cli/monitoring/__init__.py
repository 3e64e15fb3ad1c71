"""Commands that watch a server: events, holds, usage, top."""
