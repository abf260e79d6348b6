from served import client_of, hook, hook_of, hub, index, listening, send, stored_folder, stored_index

__all__ = ["client_of", "hook", "hook_of", "hub", "index", "listening", "send", "stored_folder", "stored_index"]
