"""The demo's upstreams as a star: orders, their customers, and the customers' countries."""
