"""How long an execution path takes: measured, forecast and bounded."""
