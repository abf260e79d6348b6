"""Rows of ``CodeInput.blocks``."""

from gedbd.encoders.code.inputs import BLOCKS

COMMENT_BLOCK = BLOCKS.index("comment")
CODE_BLOCK = BLOCKS.index("code")
NODE_BLOCK = BLOCKS.index("nodes")
TYPE_BLOCK = BLOCKS.index("types")
ROLE_BLOCK = BLOCKS.index("roles")
