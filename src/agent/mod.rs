//! What runs inside a Job.
