"""For tests of users' programs: a harness for one operator, rules for connectors, clocks."""
