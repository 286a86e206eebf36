"""The control tables of a job: settings, barrier log and per-vnode state, in Delta, without a JVM."""
