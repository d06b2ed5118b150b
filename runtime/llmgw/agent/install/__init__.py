"""The one installer of engines: from a release to a program that was checked and seen to run."""
