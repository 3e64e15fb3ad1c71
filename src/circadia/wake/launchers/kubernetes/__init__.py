"""Launcher that runs a pulse as a Job of a Kubernetes cluster."""
