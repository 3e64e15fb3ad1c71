"""Messages, wakes and events over Redis, for programs that use DjinnBot's streams (WAKE-73, CLU-40)."""
