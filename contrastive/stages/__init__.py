"""One cell through its stages (prepare, train, evaluate), and the processes in which it trains."""
