"""Deciding on wake requests: guardrails, budgets, chains, replay."""
