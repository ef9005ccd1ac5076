"""What can be seen of a live environment: by running its pipeline alone, by stepping it, by trying things out."""
