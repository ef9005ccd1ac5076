"""Evidence from a live environment: from running its pipeline alone, stepping it, and trials."""
