"""Programs that people point at the gateway, each as it is installed from PyPI or npm."""
