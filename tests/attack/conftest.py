from served import client_of, hook, hook_of, hub, index, listening, send, stored_folder, stored_index
from small_tracker import reader

__all__ = [
    "client_of",
    "hook",
    "hook_of",
    "hub",
    "index",
    "listening",
    "reader",
    "send",
    "stored_folder",
    "stored_index",
]
