"""Settings of the Django project: base, and what differs for dev, test and prod. Read the environment nowhere else."""
