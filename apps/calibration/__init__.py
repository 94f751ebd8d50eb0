"""How far each judge, machine or person, can be trusted."""
