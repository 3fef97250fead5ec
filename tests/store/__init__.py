"""Tests of the results folder."""
