"""Where models lie, what their files say (shape, positions), and DeepSpeed's configuration files."""
