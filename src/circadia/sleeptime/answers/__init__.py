"""Ready answers at sleep time: prediction, cleanup and quality samples."""
