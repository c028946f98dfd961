"""How long an execution path takes: measured on this device, forecast and bounded."""
