"""One frame from its arrival to its result, without ROS: mailbox, deadline, pipeline, watchdog, tracks, loading."""
