"""A team works on two gateways and two workers while one of each is killed; a table says whether anything was lost."""
