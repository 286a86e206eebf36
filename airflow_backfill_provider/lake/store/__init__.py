"""Where tables lie: folders, object stores, their options and answers."""
