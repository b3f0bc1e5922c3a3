extension LedgerSchema {
  /// Migration 0029. What apps send in any number: attributes of customers, and events.
  static let bounds = """
    -- What an app says of a customer, a row for each name. value NULL: deleted, since updated_at by the device's clock.
    CREATE TABLE customer_attribute (
      key TEXT NOT NULL CHECK (key <> ''),
      name TEXT NOT NULL CHECK (name <> ''),
      value TEXT,
      updated_at INTEGER NOT NULL,
      PRIMARY KEY (key, name)
    ) STRICT, WITHOUT ROWID;

    -- The bytes of the events that a user's app has reported on the newest day on which it reported any.
    CREATE TABLE reported_bytes (
      user_id TEXT NOT NULL PRIMARY KEY CHECK (user_id <> ''),
      day INTEGER NOT NULL,
      bytes INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    -- customer.attributes is moved to the rows, within the bounds of CustomerAttribute, and stays NULL.
    INSERT INTO customer_attribute (key, name, value, updated_at)
      SELECT key, name, value, updated_at FROM (
        SELECT *, sum(length(CAST(name AS BLOB)) + coalesce(length(CAST(value AS BLOB)), 0))
          OVER (PARTITION BY key ORDER BY name) AS bytes
        FROM (
          SELECT customer.key AS key, one.key AS name, one.value ->> 'updated_at_ms' AS updated_at,
            iif(length(CAST(one.value ->> 'value' AS BLOB)) > 2000,
              substr(one.value ->> 'value', 1, 500), one.value ->> 'value') AS value
          FROM customer, json_each(customer.attributes) AS one
          WHERE length(CAST(one.key AS BLOB)) BETWEEN 1 AND 160))
      WHERE bytes <= 65536;
    INSERT INTO memo (name, text)
      SELECT 'attributes_cut', CAST(count(*) AS TEXT) FROM customer
      WHERE attributes IS NOT NULL AND (
        SELECT sum(length(CAST(one.key AS BLOB)) + coalesce(length(CAST(one.value ->> 'value' AS BLOB)), 0))
        FROM json_each(customer.attributes) AS one
      ) > (
        SELECT coalesce(sum(length(CAST(name AS BLOB)) + coalesce(length(CAST(value AS BLOB)), 0)), 0)
        FROM customer_attribute WHERE customer_attribute.key = customer.key
      ) HAVING count(*) > 0;
    UPDATE customer SET attributes = NULL WHERE attributes IS NOT NULL;
    """
}
