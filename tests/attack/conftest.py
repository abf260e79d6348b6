from served import client_of, index, listening, stored_folder, stored_index
from small_tracker import reader

__all__ = ["client_of", "index", "listening", "reader", "stored_folder", "stored_index"]
