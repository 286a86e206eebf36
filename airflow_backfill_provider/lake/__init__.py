"""What the Delta log of a data table says, read with deltalake: no JVM, no data but key columns."""
