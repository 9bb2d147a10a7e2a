"""Workers and apps in tests."""
