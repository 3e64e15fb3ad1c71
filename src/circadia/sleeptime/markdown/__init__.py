"""Dreams: passes over the Markdown memory folder of a coding agent.

A folder is the file form of a bank: each entry of its files is a note, and the turns of its sessions are episodes. An
ordinary pass consolidates them, and what it changes becomes edits of the files.
"""
