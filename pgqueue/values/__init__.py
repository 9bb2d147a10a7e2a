"""Values that users give: names, numbers, texts and times, checked and shown in one way."""
