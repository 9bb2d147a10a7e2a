"""Projects that differ in one of Django's settings each; `visit` opens their pages and works."""
