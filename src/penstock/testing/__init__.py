"""For tests of users' programs: a harness for one operator, clocks, jobs without a JVM."""
