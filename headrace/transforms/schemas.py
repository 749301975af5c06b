"""Transforms on rows: choosing, grouping and joining by fields (Beam's Java package `schemas.transforms`)."""

from headrace.sdk.transforms.schemas.group_by import GroupBy, Select
from headrace.sdk.transforms.schemas.join import CoGroup, Join

__all__ = ["CoGroup", "GroupBy", "Join", "Select"]
