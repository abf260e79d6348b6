from served import client_of, index, listening, stored_folder, stored_index

__all__ = ["client_of", "index", "listening", "stored_folder", "stored_index"]
