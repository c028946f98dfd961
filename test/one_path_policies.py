"""Policies for the parameter `policy` of nodes that run as processes: always the same path."""

from __future__ import annotations

from deadline_perception.decision.frontier import FrontierPolicy


def cheapest(space, forecast, quality):
    return _prepared(FrontierPolicy(space, forecast, quality, paths=[space.smallest]))


def largest(space, forecast, quality):
    return _prepared(FrontierPolicy(space, forecast, quality, paths=[space.largest]))


def _prepared(policy):
    policy.prepare()
    return policy
