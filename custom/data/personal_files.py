"""What lies in a site's run folder of a method with personal parts; none of it leaves the site."""

# Holds the other two, and the personal part after each of the last rounds.
PERSONAL_FOLDER = "personal"
LOCAL_MODEL_FILE = "local_model.pt"
LOCAL_SCORES_FILE = "local_scores.json"
