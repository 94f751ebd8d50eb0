"""What the pages read, joined over the apps: frozen shapes, never half-loaded rows."""
